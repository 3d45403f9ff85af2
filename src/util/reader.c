/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two kinds of processes: a maker, which only forks readers and so never hangs; and one reader at a
 * time. Both are forked before the tracer has opened anything, so that an abandoned reader holds
 * nothing of it.
 */
#include "reader_priv.h"

#include "await.h"
#include "child.h"
#include "clock.h"
#include "log.h"
#include "pass_fd.h"
#include "profile_budget.h"
#include "reader_mounts.h"
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without the time in which it waits for a processor. */
#define TIMEOUT_MS 500
/* A reader ends itself after this time, if it can. */
#define ALARM_S	     (AWAIT_MAX_MS / 1000 + 1)
#define LOST_MAX     64
#define USERS_MAX    256
#define USER_LOST    3
#define USER_WAIT_NS 60000000000ull

struct user {
	uid_t uid;
	unsigned lost;
	uint64_t ns; /* time of the last one */
};

static struct {
	pid_t maker, pid; /* pid: of the current reader */
	int maker_fd, fd; /* -1: none */
	bool requested;	  /* a reader was requested from the maker and has not arrived yet */
	struct {
		int fd;
		uid_t uid; /* user of the process that it reads */
	} lost[LOST_MAX];
	unsigned lost_cnt;
	struct user users[USERS_MAX];
	unsigned user_cnt;
	struct reader_stats stats;
} reader = {.maker_fd = -1, .fd = -1};

static void __attribute__((noreturn)) read_for(int sock)
{
	static struct reader_request r;
	struct pollfd p = {.fd = sock, .events = POLLIN};
	sigset_t alarms;

	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	for (;;) {
		int fd;

		if (!poll(&p, 1, 1000)) {
			reader_mounts__forget();
			poll(&p, 1, -1);
		}
		if (read(sock, &r, sizeof(r)) != sizeof(r))
			break;
		alarm(ALARM_S);
		fd = reader_serve(&r);
		alarm(0);
		if (!pass_fd__send(sock, fd))
			break;
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

/* Forked early: an abandoned reader would keep whatever it has of the tracer's. */
static void __attribute__((noreturn)) make_readers(int sock, bool sandbox)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t all;
	int pair[2];
	char byte;

	child_begin(sock, "cudatrace-read");
	(void)!chdir("/");
	/* Stopping a service signals all its processes: these end with the tracer. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigaction(SIGALRM, &dfl, NULL);
	/* Another filter may keep its copy of the tracer's end of the socket open. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (sandbox)
		sandbox__enter_reader(true);
	while (read(CHILD_SOCK, &byte, 1) == 1) {
		pid_t pid;

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
			_exit(1);
		pid = fork();
		if (!pid) {
			close(CHILD_SOCK);
			close(pair[0]);
			if (sandbox)
				sandbox__enter_reader(false);
			read_for(pair[1]);
		}
		/* The first message of its socket is its process id. */
		if (pid < 0 || write(pair[1], &pid, sizeof(pid)) != sizeof(pid) ||
		    !pass_fd__send(CHILD_SOCK, pair[0]))
			_exit(1);
		close(pair[0]);
		close(pair[1]);
	}
	_exit(0);
}

int reader__start(bool sandbox)
{
	int pair[2], ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	reader.maker = fork();
	if (!reader.maker)
		make_readers(pair[1], sandbox);
	ret = reader.maker < 0 ? -errno : 0;
	close(pair[1]);
	reader.maker_fd = pair[0];
	if (ret)
		reader__end();
	return ret;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void reader__end(void)
{
	close_fd(&reader.fd);
	close_fd(&reader.maker_fd);
	while (reader.lost_cnt)
		close(reader.lost[--reader.lost_cnt].fd);
	while (reader.maker > 0 && waitpid(reader.maker, NULL, 0) < 0 && errno == EINTR)
		;
	reader.maker = 0;
}

/* Returns false if nothing arrived in time. */
static bool await(int fd, pid_t pid, unsigned ms)
{
	uint64_t starved_ns;
	bool answered = await_answer(fd, pid, ms, &starved_ns);

	time_budget__excuse(starved_ns);
	return answered;
}

/* Forgets abandoned readers that have answered after all, or could be killed. */
static void forget_ended(void)
{
	for (unsigned i = reader.lost_cnt; i-- > 0;) {
		struct pollfd p = {.fd = reader.lost[i].fd, .events = POLLIN};

		if (poll(&p, 1, 0) <= 0)
			continue;
		close(reader.lost[i].fd);
		reader.lost[i] = reader.lost[--reader.lost_cnt];
	}
}

static bool is_gone;

bool reader__is_gone(void)
{
	return is_gone;
}

static int no_reader(void)
{
	is_gone = true;
	warn("cudatrace-read was ended: files of processes cannot be read any more: start "
	     "cudatrace again");
	close_fd(&reader.maker_fd);
	close_fd(&reader.fd);
	return -EBUSY;
}

static int get_reader(void)
{
	bool waited = reader.requested;

	if (reader.fd >= 0)
		return 0;
	if (reader.maker_fd < 0)
		return -EBUSY;
	if (reader.lost_cnt == LOST_MAX)
		forget_ended();
	if (reader.lost_cnt == LOST_MAX)
		return -EBUSY;
	/* The maker ends when it cannot fork a reader. A busy machine may delay it: it is sent one
	 * request, waited for once, and then only polled. */
	if (!waited && write(reader.maker_fd, "", 1) != 1)
		return no_reader();
	reader.requested = true;
	if (!await(reader.maker_fd, reader.maker, waited ? 1 : 2 * TIMEOUT_MS))
		return -EBUSY;
	reader.requested = false;
	if (!pass_fd__take(reader.maker_fd, S_IFSOCK, &reader.fd) || reader.fd < 0 ||
	    read(reader.fd, &reader.pid, sizeof(reader.pid)) != sizeof(reader.pid))
		return no_reader();
	return 0;
}

/* No line of this file waits for the process. The owner of /proc/PID does not help: it is root for
 * a process that is not dumpable. */
uid_t reader__user(pid_t pid)
{
	char line[256];
	unsigned uid = -1;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", (int)pid);
	f = pid ? fopen(line, "re") : NULL;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid:\t%u", &uid) == 1)
			break;
	if (f)
		fclose(f);
	return uid;
}

/* Returns the entry of the user. A new user replaces one whose minute is over; if there is none,
 * users share the last entry. */
static struct user *get_user(uid_t uid, uint64_t now)
{
	struct user *u = NULL;

	for (unsigned i = 0; i < reader.user_cnt; i++) {
		if (reader.users[i].uid == uid)
			return &reader.users[i];
		if (now - reader.users[i].ns >= USER_WAIT_NS)
			u = &reader.users[i];
	}
	if (!u && reader.user_cnt == USERS_MAX)
		return &reader.users[USERS_MAX - 1];
	if (!u)
		u = &reader.users[reader.user_cnt++];
	*u = (struct user){.uid = uid};
	return u;
}

/* Number of readers that hang now. */
static unsigned lost_of(uid_t uid)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < reader.lost_cnt; i++)
		cnt += reader.lost[i].uid == uid;
	return cnt;
}

static bool is_shut_out(pid_t pid)
{
	uint64_t now = reader.user_cnt ? now_ns() : 0;
	struct user *u;
	uid_t uid;

	if (!reader.user_cnt)
		return false;
	uid = reader__user(pid);
	if (lost_of(uid) >= USER_LOST)
		forget_ended();
	if (lost_of(uid) >= USER_LOST)
		return true;
	u = get_user(uid, now);
	if (now - u->ns >= USER_WAIT_NS)
		u->lost = 0;
	return u->lost >= USER_LOST;
}

static int lose(pid_t pid, const char *what)
{
	uid_t uid = reader__user(pid);
	struct user *u = get_user(uid, now_ns());

	if (!reader.stats.lost++)
		warn("cannot read %s of process %d: left out: a file system that it maps or has "
		     "mounted does not answer",
		     what, (int)pid);
	u->lost++;
	u->ns = now_ns();
	reader.lost[reader.lost_cnt].fd = reader.fd;
	reader.lost[reader.lost_cnt++].uid = uid;
	reader.fd = -1;
	return -ETIMEDOUT;
}

/* The kernel's clock of another process: MAKE_PROCESS_CPUCLOCK() of its sources. */
static uint64_t cpu_ns(pid_t pid)
{
	return clock_ns((clockid_t)(~(unsigned)pid << 3 | 2));
}

static int request_read(const struct reader_request *r)
{
	uint64_t cpu;
	int ret, fd;

	if (reader.maker <= 0)
		return reader_serve(r);
	if (is_shut_out(r->pid))
		return -EBUSY;
	for (int i = 0; i < 2; i++) {
		ret = get_reader();
		if (ret)
			return ret;
		cpu = cpu_ns(reader.pid);
		if (send(reader.fd, r, sizeof(*r), MSG_NOSIGNAL) == sizeof(*r)) {
			if (!await(reader.fd, reader.pid, TIMEOUT_MS))
				return lose(r->pid, r->range_cnt ? "memory" : r->path);
			if (pass_fd__take(reader.fd, S_IFREG, &fd)) {
				profile_budget__spend_within(cpu_ns(reader.pid) - cpu);
				return fd;
			}
		}
		/* It was killed by another process. */
		close_fd(&reader.fd);
	}
	return -EBUSY;
}

int reader__begin(struct work *w, pid_t pid, enum work_kind kind)
{
	return time_budget__begin(w, time_budget__needs_user() ? reader__user(pid) : 0, kind);
}

/* The process decides how long it takes, even if it answers in the end. */
static int ask(const struct reader_request *r)
{
	struct work w;
	int ret;

	if (!r->pid)
		return request_read(r);
	if (reader__begin(&w, r->pid, WORK_FILES))
		return -EBUSY;
	ret = request_read(r);
	time_budget__end(&w);
	return ret;
}

static int count(int ret)
{
	reader.stats.refused += ret == -EREMOTE || ret == -EBUSY;
	return ret;
}

int reader__copy(pid_t pid, const char *name, size_t max)
{
	struct reader_request r = {.pid = pid, .copy = true, .max = max};

	snprintf(r.path, sizeof(r.path), "%s", name);
	return count(ask(&r));
}

ssize_t reader__link(pid_t pid, const char *name, char *buf, size_t size)
{
	struct reader_request r = {.pid = pid, .copy = true, .link = true, .max = size - 1};
	ssize_t n;

	snprintf(r.path, sizeof(r.path), "%s", name);
	n = reader__take(count(ask(&r)), buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

int reader__memory(pid_t pid, struct reader_range *ranges, unsigned cnt, uint8_t *buf)
{
	struct reader_request r = {.pid = pid, .range_cnt = cnt};
	size_t sum = 0, size = cnt * sizeof(*ranges);
	int fd;

	if (!cnt || cnt > READER_RANGES_MAX)
		return -EINVAL;
	memcpy(r.ranges, ranges, size);
	for (unsigned i = 0; i < cnt; i++)
		sum += ranges[i].len;
	fd = count(ask(&r));
	if (fd < 0)
		return fd;
	/* The bytes that were read, then the length of each range. */
	memset(buf, 0, sum);
	if (read(fd, r.ranges, size) != (ssize_t)size || read(fd, buf, sum) < 0) {
		close(fd);
		return -EIO;
	}
	close(fd);
	for (unsigned i = 0; i < cnt; i++)
		ranges[i].got = r.ranges[i].got < ranges[i].len ? r.ranges[i].got : ranges[i].len;
	return 0;
}

int reader__open(pid_t pid, const char *path, int flags)
{
	struct reader_request r = {.pid = pid, .flags = flags};

	if (strlen(path) >= sizeof(r.path))
		return -ENAMETOOLONG;
	strcpy(r.path, path);
	return count(ask(&r));
}

ssize_t reader__take(int fd, void *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while (len < size && (n = read(fd, (char *)buf + len, size - len)) > 0)
		len += n;
	close(fd);
	return len;
}

void reader__stats(struct reader_stats *stats)
{
	*stats = reader.stats;
}
