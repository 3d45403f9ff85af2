/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "late.h"

#include "late_target.h"

#include "inject_priv.h"

#include "util/child.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/sandbox.h"
#include "util/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
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
/* A thread that has read the ticket takes it within this time, or has lost its processor. */
#define WITHDRAWN_NS (20 * MS)
#define TEXT_SZ	     400

struct answer {
	enum { REFUSED, READY, FAILED, ENTERED } what;
	char text[TEXT_SZ];
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
static bool step(void)
{
	const struct timespec ns = {0, STEP_NS};
	struct pollfd tracer = {.fd = CHILD_SOCK};

	nanosleep(&ns, NULL);
	return poll(&tracer, 1, 0) <= 0 || !(tracer.revents & (POLLHUP | POLLERR));
}

static const char *look(struct late_target *t, pid_t pid, const char *library)
{
	uint64_t begin = now_ns();
	const char *why = late_target__look(t, pid, library);

	while (why == late_hooked && now_ns() - begin < HOOKED_MAX_NS && step()) {
		late_target__close(t);
		why = late_target__look(t, pid, library);
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

/* Waits for an earlier attach in this process. A child of fork has its parent's words. */
static const char *await_earlier(const struct late_target *t, struct late_state *s)
{
	uint64_t begin = now_ns();

	do {
		if (!read_state(t, s))
			return "it has ended";
		if (s->taken == s->done || s->pid != (uint32_t)t->inner_pid)
			return NULL;
	} while (now_ns() - begin < EARLIER_NS && step());
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
static const char *offer(struct late_target *t, const char *socket, struct late_state *s)
{
	char name[LATE_SOCKET_SZ] = "";

	snprintf(name, sizeof(name), "%s", socket);
	if (!put_code(t) || !put_ticket(t, 0) ||
	    !late_target__write(t, word_at(t, offsetof(struct late_state, socket)), name,
				sizeof(name)))
		return "its memory cannot be written; use --probe=uprobe";
	put_pointers(t, false);
	return read_state(t, s) && put_ticket(t, s->taken + 1) ? NULL : "it has ended";
}

/* Waits until a thread has taken the ticket; otherwise it is withdrawn, also when a thread gets a
 * filter of system calls meanwhile. Returns NULL, or the reason. */
static const char *await_call(const struct late_target *t, uint32_t ticket)
{
	const struct timespec ns = {0, WITHDRAWN_NS};
	uint64_t begin = now_ns();
	bool is_there, is_filtered;
	struct late_state s;

	do {
		if (!read_state(t, &s))
			return "it has ended";
		if (s.taken == ticket)
			return NULL;
		is_filtered = late_target__is_filtered(t->pid);
	} while (!is_filtered && now_ns() - begin < CALL_MAX_NS && step());
	put_ticket(t, 0);
	nanosleep(&ns, NULL);
	is_there = read_state(t, &s) && s.taken == ticket;
	if (is_there)
		return NULL;
	put_pointers(t, true);
	return is_filtered ? late_filtered : "it has made no CUDA call within 5 s";
}

static const char *result_text(const struct late_state *s)
{
	static char text[160];

	if (s->step == LATE_CONNECT && s->result == -EBUSY)
		return "another cudatrace traces it in-process; end that one first";
	if (s->step == LATE_CONNECT && s->result == -ESTALE)
		return "another kind of cudatrace has traced it in-process before";
	snprintf(text, sizeof(text), "%s: %s",
		 s->step == LATE_THREAD ? "it cannot create a thread"
		 : s->step == LATE_OPEN ? "it cannot load the library"
					: "the library does not record it",
		 strerror(-s->result));
	return text;
}

static const char *enter(struct late_target *t, const char *socket)
{
	struct late_state s;
	const char *why = init_state(t) ? await_earlier(t, &s) : "its memory cannot be written";
	uint32_t ticket;
	uint64_t begin;

	why = why ?: offer(t, socket, &s);
	if (why)
		return why;
	ticket = s.taken + 1;
	why = await_call(t, ticket);
	if (why)
		return why;
	begin = now_ns();
	while (read_state(t, &s) && now_ns() - begin < DONE_MAX_NS) {
		if (s.done != ticket) {
			if (!step())
				return NULL;
			continue;
		}
		return s.result ? result_text(&s) : NULL;
	}
	return "the library has not connected within 15 s";
}

/* One tracer at a time enters processes. It belongs to root. */
static bool lock_all(void)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open("/run/cudatrace/late.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	uint64_t begin = now_ns();

	while (fd >= 0 && fcntl(fd, F_OFD_SETLK, &all))
		if (now_ns() - begin > DONE_MAX_NS || !step())
			return false;
	return fd >= 0;
}

static void __attribute__((noreturn))
run(int sock, const struct inject *in, const pid_t *pids, unsigned cnt, bool sandbox)
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
	if (sandbox)
		sandbox__enter_late();
	for (unsigned i = 0; i < cnt && !why; i++) {
		why = look(&t, pids[i], in->library);
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
		why = look(&t, pids[i], in->library);
		if (t.start != starts[i])
			why = "it has ended";
		else if (!why && !is_locked)
			why = "another cudatrace is entering processes; try again";
		why = why ?: enter(&t, in->socket_name);
		tell(why ? FAILED : ENTERED, &t, why);
		late_target__close(&t);
	}
	_exit(0);
}
#else
static void __attribute__((noreturn))
run(int sock, const struct inject *in, const pid_t *pids, unsigned cnt, bool sandbox)
{
	struct answer a = {.what = REFUSED};
	struct late_target t;

	snprintf(a.text, sizeof(a.text), "process %d cannot be entered: %s", pids[0],
		 late_target__look(&t, pids[0], in->library));
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

int late__start(struct late *l, const struct inject *in, const pid_t *pids, unsigned cnt,
		bool sandbox)
{
	struct timeval max = {.tv_sec = CHECK_MAX_S};
	struct answer a = {0};
	int pair[2];

	if (cnt > INJECT_LATE_MAX) {
		err("--probe=inject: at most %u processes at a time", INJECT_LATE_MAX);
		return -E2BIG;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err("cannot start cudatrace-late: %s: raise the limit of open files (ulimit -n)",
		    strerror(errno));
		return -EMFILE;
	}
	l->helper = fork();
	if (!l->helper)
		run(pair[1], in, pids, cnt, sandbox);
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
