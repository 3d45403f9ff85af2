/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "late.h"

#include "late_filter.h"
#include "late_net.h"
#include "late_target.h"

#include "inject_priv.h"
#include "library.h"

#include "util/child.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/sandbox.h"
#include "util/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
/* A library whose tracer has been killed checks for it after three seconds. */
#define HOOKED_MAX_NS (6000 * MS)
/* Until a thread comes; until the library has connected, which takes at most two of its waits; and
 * until an earlier attach has ended. */
#define CALL_MAX_NS (5000 * MS)
#define DONE_MAX_NS (15000 * MS)
#define EARLIER_NS  (7000 * MS)
#define CHECK_MAX_S 30
#define STEP_NS	    500000
/* While a thread may wait for its tracer. */
#define CALL_STEP_NS 50000
/* A thread waits for milliseconds, in which the tracer may not run. */
#define GO_TRIES 100
/* A thread that has read the ticket takes it within this time, or has lost its processor. */
#define WITHDRAWN_NS (20 * MS)
#define TEXT_SZ	     400

struct answer {
	enum { REFUSED, READY, FAILED, ENTERED } what;
	char text[TEXT_SZ];
};

/* A process to enter. */
struct wanted {
	pid_t pid;
	unsigned filters; /* system call filters that were checked */
};

#ifdef __x86_64__
/* --- in the helper --- */

static void tell(int what, const struct late_target *t, const char *why)
{
	struct answer a = {.what = what};

	if (why)
		snprintf(a.text, sizeof(a.text), "process %d (%s) cannot be entered: %s", t->pid,
			 t->comm, why);
	(void)!send(CHILD_SOCK, &a, sizeof(a), MSG_NOSIGNAL);
}

/* Returns false if the tracer has ended. */
static bool step(long step_ns)
{
	const struct timespec ns = {0, step_ns};
	struct pollfd tracer = {.fd = CHILD_SOCK};

	nanosleep(&ns, NULL);
	return poll(&tracer, 1, 0) <= 0 || !(tracer.revents & (POLLHUP | POLLERR));
}

static const char *look(struct late_target *t, const struct wanted *w, const char *library)
{
	uint64_t begin = now_ns();
	const char *why = late_target__look(t, w->pid, library, w->filters);

	while (why == late_hooked && now_ns() - begin < HOOKED_MAX_NS && step(STEP_NS)) {
		late_target__close(t);
		why = late_target__look(t, w->pid, library, w->filters);
	}
	return why;
}

static uint64_t word_at(const struct late_target *t, size_t offset)
{
	return t->data.state + offset;
}

static bool read_state(const struct late_target *t, struct late_state *s)
{
	return late_target__read(t, t->data.state, s, sizeof(*s));
}

/* The first attach. */
static bool init_state(const struct late_target *t)
{
	struct late_state s;

	if (!read_state(t, &s))
		return false;
	if (!memcmp(s.magic, LATE_MAGIC, sizeof(LATE_MAGIC)))
		return true;
	s = (struct late_state){.magic = LATE_MAGIC};
	return late_target__write(t, t->data.state, &s, sizeof(s));
}

static bool put_go(const struct late_target *t, uint32_t ticket)
{
	return late_target__write(t, word_at(t, offsetof(struct late_state, go)), &ticket,
				  sizeof(ticket));
}

static bool put_ticket(const struct late_target *t, uint32_t ticket)
{
	return late_target__write(t, word_at(t, offsetof(struct late_state, ticket)), &ticket,
				  sizeof(ticket));
}

static bool put_code(struct late_target *t)
{
	size_t size = late_code_end - late_code_begin;
	char code[4096], there[4096];

	memcpy(code, late_code_begin, size);
	memcpy(code + ((const char *)&late_data - late_code_begin), &t->data, sizeof(t->data));
	return (t->has_code || late_target__write(t, t->code, code, size)) &&
	       late_target__read(t, t->code, there, size) && !memcmp(there, code, size);
}

static const char has_gone[] = "it has ended, or has executed another program";

/* Waits for an earlier attach in this process. A child of fork has its parent's words. */
static const char *await_earlier(const struct late_target *t, struct late_state *s)
{
	uint64_t begin = now_ns();

	do {
		if (!read_state(t, s))
			return has_gone;
		if (s->taken == s->done || s->pid != (uint32_t)t->inner_pid)
			return NULL;
	} while (now_ns() - begin < EARLIER_NS && step(STEP_NS));
	return "an earlier attach has not ended; try again, or use --probe=uprobe";
}

static void put_pointers(const struct late_target *t, bool back)
{
	for (unsigned i = 0; i < LATE_SLOTS && t->data.slots[i].at; i++) {
		uint64_t entry = late_target__entry(t, i), real = t->data.slots[i].real, now;

		if (late_target__read(t, t->data.slots[i].at, &now, sizeof(now)) &&
		    now == (back ? entry : real))
			late_target__write(t, t->data.slots[i].at, back ? &real : &entry,
					   sizeof(real));
	}
}

/* Writes everything before the ticket. After the ticket, the process does not need the tracer. */
static const char *offer(struct late_target *t, const struct inject *in, struct late_state *s)
{
	char name[LATE_SOCKET_SZ] = "";

	snprintf(name, sizeof(name), "%s", in->socket_name);
	if (!put_code(t) || !put_ticket(t, 0) ||
	    !late_target__write(t, word_at(t, offsetof(struct late_state, socket)), name,
				sizeof(name)) ||
	    !late_target__write(t, word_at(t, offsetof(struct late_state, token)), in->token,
				sizeof(in->token)))
		return "its memory cannot be written; use --probe=uprobe";
	put_pointers(t, false);
	return read_state(t, s) && put_ticket(t, s->taken + 1) ? NULL : has_gone;
}

static void withdraw(const struct late_target *t)
{
	const struct timespec ns = {0, WITHDRAWN_NS};

	put_ticket(t, 0);
	nanosleep(&ns, NULL);
}

/* Returns whether a thread has taken the ticket; otherwise it is withdrawn. */
static bool await_call(const struct late_target *t, uint32_t ticket, uint64_t begin)
{
	struct late_state s;

	do {
		if (!read_state(t, &s))
			return false;
		if (s.waiting == ticket)
			return true;
	} while (now_ns() - begin < CALL_MAX_NS && step(CALL_STEP_NS));
	withdraw(t);
	if (read_state(t, &s) && s.taken == ticket)
		return true;
	put_pointers(t, true);
	return false;
}

static const char *result_text(const struct late_target *t, const struct late_state *s)
{
	static char text[160];

	if (s->step == LATE_CONNECT && s->result == -EBUSY)
		return "another cudatrace traces it in-process; end that one first";
	if (s->step == LATE_CONNECT && s->result == -ESTALE)
		return "another kind of cudatrace has traced it in-process before";
	if (s->step == LATE_GO)
		return "the machine is too busy to check it once more within milliseconds; try again";
	if (s->step != LATE_THREAD && late_target__is_out_of_files(t))
		return "it has as many open files as its limit allows (ulimit -n); raise that, or "
		       "use --probe=uprobe";
	snprintf(text, sizeof(text), "%s: %s",
		 s->step == LATE_THREAD ? "it cannot create a thread"
		 : s->step == LATE_FILE ? "it cannot create a file for the library (memfd)"
		 : s->step == LATE_OPEN ? "it cannot load the library"
					: "the library does not record it",
		 strerror(-s->result));
	return text;
}

/* Returns whether this is an empty memfd that the process has created for the library. */
static bool is_empty_memfd(const struct late_target *t, int fd)
{
	char own[32], path[LATE_PATH_SZ + 32];
	struct stat st;
	ssize_t len;

	snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
	len = readlink(own, path, sizeof(path) - 1);
	if (len < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size || st.st_nlink)
		return false;
	path[len] = '\0';
	return late_target__is_memfd(t, path);
}

/* The library's file is missing in its mount namespace. No other file is opened for writing: a
 * process may pass the descriptor of any. */
static bool fill_file(const struct late_target *t, int its_fd)
{
	size_t size, done = 0;
	const char *bytes = library__bytes(LIBRARY_INJECT, &size);
	char path[48];
	int fd, seals;
	ssize_t n = 1;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", t->pid, its_fd);
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 || !is_empty_memfd(t, fd)) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	its_fd = fd;
	fd = open(path, O_RDWR | O_CLOEXEC);
	close(its_fd);
	seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	for (; seals >= 0 && !(seals & F_SEAL_SEAL) && done < size && n > 0; done += n > 0 ? n : 0)
		n = pwrite(fd, bytes + done, size - done, (off_t)done);
	if (done == size)
		n = fcntl(fd, F_ADD_SEALS,
			  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	if (fd >= 0)
		close(fd);
	return done == size && !n;
}

/* Waits until the thread that has taken the ticket has ended what it does. */
static const char *await_end(const struct late_target *t, uint32_t ticket, struct late_state *s)
{
	uint64_t begin = now_ns();
	uint32_t filled = 0;

	while (now_ns() - begin < DONE_MAX_NS) {
		if (!read_state(t, s))
			return has_gone;
		if (s->done == ticket)
			return s->result ? result_text(t, s) : NULL;
		if (s->file && s->file != filled && fill_file(t, (int)s->file - 1))
			filled = s->file;
		if (!step(STEP_NS))
			return NULL;
	}
	return "the library has not connected within 15 s";
}

static const char only_in_handlers[] =
	"its CUDA calls seem to come from signal handlers; use --probe=uprobe";

/* Lets a thread of the program load the library, if its system call filters are still those that
 * were checked, and if it runs no signal handler. */
static const char *enter(struct late_target *t, const struct inject *in)
{
	struct late_state s;
	const char *why = init_state(t) ? await_earlier(t, &s) : "its memory cannot be written";
	uint64_t begin = now_ns();
	bool may_go = true, in_handler = false;
	uint32_t ticket;

	for (unsigned i = 0; !why && may_go && i < GO_TRIES; i++) {
		why = offer(t, in, &s);
		if (why)
			return why;
		ticket = s.taken + 1;
		if (!await_call(t, ticket, begin))
			return in_handler	   ? only_in_handlers
			       : read_state(t, &s) ? "it has made no CUDA call within 5 s"
						   : has_gone;
		may_go = read_state(t, &s) && late_target__may_go(t, (pid_t)s.tid);
		in_handler = late_target__in_handler(t, s.stack);
		put_go(t, may_go && !in_handler ? ticket : ~ticket);
		why = await_end(t, ticket, &s);
		if (!why || s.step != LATE_GO)
			return why;
		/* The tracer was too slow, or must not go on. */
		withdraw(t);
		put_pointers(t, true);
		why = NULL;
	}
	return why	    ? why
	       : in_handler ? only_in_handlers
	       : may_go	    ? result_text(t, &s)
			    : "it has installed a system call filter (seccomp) meanwhile; use "
			      "--probe=uprobe";
}

/* One tracer at a time enters processes. It belongs to root. */
static bool lock_all(void)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open("/run/cudatrace/late.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint64_t begin = now_ns();

	while (fd >= 0 && fcntl(fd, F_OFD_SETLK, &all))
		if (now_ns() - begin > DONE_MAX_NS || !step(STEP_NS))
			return false;
	return fd >= 0;
}

static void __attribute__((noreturn))
run(int sock, const struct inject *in, const struct wanted *list, unsigned cnt, bool sandbox)
{
	unsigned long long starts[INJECT_LATE_MAX];
	struct late_target t;
	const char *why = NULL;
	bool is_locked;
	sigset_t all;
	char go;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	child_begin(sock, "cudatrace-late");
	/* A thread of the program may wait for milliseconds. */
	sched_setscheduler(0, SCHED_RR, &(struct sched_param){1});
	if (sandbox)
		sandbox__enter_late();
	for (unsigned i = 0; i < cnt && !why; i++) {
		why = look(&t, &list[i], in->library);
		starts[i] = t.start;
		if (why)
			tell(REFUSED, &t, why);
		late_target__close(&t);
	}
	if (why)
		_exit(0);
	tell(READY, NULL, NULL);
	if (recv(CHILD_SOCK, &go, 1, 0) != 1)
		_exit(0);
	is_locked = lock_all();
	for (unsigned i = 0; i < cnt; i++) {
		why = look(&t, &list[i], in->library);
		if (t.start != starts[i])
			why = "it has ended";
		else if (!why && !is_locked)
			why = "another cudatrace is entering processes; try again";
		why = why ?: enter(&t, in);
		tell(why ? FAILED : ENTERED, &t, why);
		late_target__close(&t);
	}
	_exit(0);
}

const char *late__enter(const struct inject *in, pid_t pid, unsigned filters)
{
	static char text[TEXT_SZ];
	const struct wanted w = {pid, filters};
	struct late_target t;
	const char *why = look(&t, &w, in->library);

	if (!why && !lock_all())
		why = "another cudatrace is entering processes; try again";
	why = why ?: enter(&t, in);
	if (why)
		snprintf(text, sizeof(text), "%s", why);
	late_target__close(&t);
	return why ? text : NULL;
}
#else
const char *late__enter(const struct inject *in, pid_t pid, unsigned filters)
{
	struct late_target t;

	return late_target__look(&t, pid, in->library, filters);
}

static void __attribute__((noreturn))
run(int sock, const struct inject *in, const struct wanted *list, unsigned cnt, bool sandbox)
{
	struct answer a = {.what = REFUSED};
	struct late_target t;

	snprintf(a.text, sizeof(a.text), "process %d cannot be entered: %s", list[0].pid,
		 late_target__look(&t, list[0].pid, in->library, 0));
	(void)!send(sock, &a, sizeof(a), MSG_NOSIGNAL);
	_exit(0);
}
#endif

/* --- in the tracer --- */

static uid_t user_of(pid_t pid)
{
	char text[4096];
	const char *at;
	uid_t uid = -1;

	at = task_read(pid, pid, "status", text, sizeof(text)) ? strstr(text, "\nUid:\t") : NULL;
	return at && sscanf(at, "\nUid:\t%*u %u", &uid) == 1 ? uid : (uid_t)-1;
}

int late__user(const pid_t *pids, unsigned cnt, uid_t *uid)
{
	*uid = user_of(pids[0]);
	for (unsigned i = 1; i < cnt; i++) {
		if (user_of(pids[i]) == *uid)
			continue;
		err("--probe=inject -p: the processes %d and %d belong to different users: trace them "
		    "separately",
		    pids[0], pids[i]);
		return -EINVAL;
	}
	return 0;
}

static int refuse(pid_t pid, const char *why)
{
	char comm[32] = "";

	if (task_read(pid, pid, "comm", comm, sizeof(comm)))
		comm[strcspn(comm, "\n")] = '\0';
	err("process %d (%s) cannot be entered: %s", pid, comm, why);
	return -EINVAL;
}

/* What the helper, which has no privilege for it, cannot do. */
static int prepare(struct inject *in, struct attach *a, struct wanted *w)
{
	const char *why = late_filter__check(a, w->pid, &w->filters);
	char text[160];
	int ret;

	if (why)
		return refuse(w->pid, why);
	ret = late_net__add(in, w->pid);
	if (!ret)
		return 0;
	snprintf(text, sizeof(text),
		 "no socket can be created in its network namespace: %s; use --probe=uprobe",
		 strerror(-ret));
	return refuse(w->pid, text);
}

int late__start(struct late *l, struct inject *in, struct attach *att, const pid_t *pids,
		unsigned cnt, bool sandbox)
{
	struct wanted list[INJECT_LATE_MAX];
	struct timeval max = {.tv_sec = CHECK_MAX_S};
	struct answer a = {0};
	int pair[2];

	if (cnt > INJECT_LATE_MAX) {
		err("--probe=inject: at most %u processes at a time", INJECT_LATE_MAX);
		return -E2BIG;
	}
	for (unsigned i = 0; i < cnt; i++) {
		int ret;

		list[i] = (struct wanted){.pid = pids[i]};
		ret = prepare(in, att, &list[i]);
		if (ret)
			return ret;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err("cannot start cudatrace-late: %s: raise the limit of open files (ulimit -n)",
		    strerror(errno));
		return -EMFILE;
	}
	l->helper = fork();
	if (!l->helper)
		run(pair[1], in, list, cnt, sandbox);
	close(pair[1]);
	l->sock = pair[0];
	l->left_cnt = cnt;
	setsockopt(l->sock, SOL_SOCKET, SO_RCVTIMEO, &max, sizeof(max));
	if (l->helper > 0 && recv(l->sock, &a, sizeof(a), 0) == sizeof(a) && a.what == READY)
		return 0;
	a.text[sizeof(a.text) - 1] = '\0';
	err("%s", a.text[0] ? a.text : "the processes cannot be checked: use --probe=uprobe");
	late__end(l);
	return -EINVAL;
}

void late__go(struct late *l)
{
	if (l->helper <= 0)
		return;
	(void)!send(l->sock, "", 1, MSG_NOSIGNAL);
}

void late__look(struct late *l)
{
	struct answer a;
	ssize_t n;

	while (l->helper > 0 && (n = recv(l->sock, &a, sizeof(a), MSG_DONTWAIT)) >= 0) {
		a.text[sizeof(a.text) - 1] = '\0';
		if (a.what == FAILED && n == sizeof(a))
			warn("%s: its calls are traced by uprobes", a.text);
		if (n == sizeof(a)) {
			l->left_cnt--;
			continue;
		}
		if (l->left_cnt)
			warn("cudatrace-late was killed: processes that it had not entered are traced by "
			     "uprobes");
		late__end(l);
	}
}

void late__end(struct late *l)
{
	if (l->helper <= 0)
		return;
	/* It ends by itself, and restores pointers before, unless it hangs. */
	close(l->sock);
	waitpid(l->helper, NULL, WNOHANG);
	l->helper = 0;
}
