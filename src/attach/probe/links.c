/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "links_priv.h"

#include "util/clock.h"
#include "util/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Timeout without a sign of life: a process may be stopped for as long. */
#define TIMEOUT_MS 1000
/* Timeout for perf events, which wait for each other (event_mutex), and for the first probes of a
 * command, which is stopped until they are attached. On a busy machine, both take seconds while
 * other tracers attach and detach. */
#define TIMEOUT_BUSY_MS 15000
/* Total time to close all links. The prompt must return within two seconds. Other mechanisms take
 * 0.1 s, unless many tracers start and stop at the same time. */
#define CLOSE_PERF_MS 1500
#define CLOSE_MS      10000
/* Interval between checks. */
#define LOOK_MS 100

struct late_answer {
	struct late_answer *next;
	struct links_answer answer;
};

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

int links__start(struct links *l, bool sandbox)
{
	int pair[2], ret = 0;

	*l = (struct links){.sock = -1};
	l->shared = mmap(NULL, sizeof(*l->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->shared == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	l->pid = fork();
	if (!l->pid)
		links_run(pair[1], l->shared, sandbox);
	if (l->pid < 0)
		ret = -errno;
	close(pair[1]);
	l->sock = pair[0];
	if (ret) {
		l->pid = 0;
		close(l->sock);
	}
	return ret;
}

void links__end(struct links *l)
{
	if (!l->pid)
		return;
	/* A process that hangs is left to init. */
	if (l->closed)
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
	while (l->late) {
		struct late_answer *late = l->late;

		l->late = late->next;
		free(late);
	}
	close(l->sock);
	munmap(l->shared, sizeof(*l->shared));
	l->pid = 0;
}

static bool has_answer(const struct links *l, unsigned ms)
{
	struct pollfd p = {.fd = l->sock, .events = POLLIN};

	return poll(&p, 1, (int)ms) > 0;
}

/* A process that hangs sleeps and does not wake. Many tracers together delay each other in the
 * kernel for seconds, but each runs in between. */
static bool moves(struct links *l)
{
	bool hangs;

	l->self.pid = l->pid;
	l->self.tid = l->shared->closer ?: l->pid;
	hangs = mmap_waiter__is_still(&l->self);
	/* While it waits for a lock holder, it wakes up regularly. */
	return !hangs && !l->shared->holder;
}

/* ms: maximum total time. */
static bool await(struct links *l, unsigned ms)
{
	uint64_t start = now_ms();
	unsigned still_ms = 0, timeout;

	while (!has_answer(l, LOOK_MS)) {
		heartbeat__beat();
		/* In checks, not by the clock: this process may not have run for a while itself. */
		still_ms = moves(l) ? 0 : still_ms + LOOK_MS;
		timeout = (l->perf || l->patient) && !l->shared->holder ? TIMEOUT_BUSY_MS
									: TIMEOUT_MS;
		if (still_ms >= timeout || now_ms() - start >= ms)
			return false;
	}
	return true;
}

/* Returns 0, or -EPIPE: the process has ended. */
static int take(struct links *l, struct links_answer *answer)
{
	if (recv(l->sock, answer, sizeof(*answer), 0) != sizeof(*answer))
		return -EPIPE;
	return 0;
}

static int ask(struct links *l, struct links_message *m, const int *fds, unsigned fd_cnt)
{
	struct iovec iov = {m, LINKS_MESSAGE_SZ(m->cnt)};
	union links_room room = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd_cnt) {
		msg.msg_control = room.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_cnt * sizeof(int));
		room.head.cmsg_level = SOL_SOCKET;
		room.head.cmsg_type = SCM_RIGHTS;
		room.head.cmsg_len = CMSG_LEN(fd_cnt * sizeof(int));
		memcpy(CMSG_DATA(&room.head), fds, fd_cnt * sizeof(int));
	}
	/* Its queue holds several requests; while it hangs, we do not wait for space. */
	if (sendmsg(l->sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? -EBUSY : -errno;
	return 0;
}

static int request_attach(struct links *l, const struct links_req *r)
{
	bool session = r->mech == MECH_SESSION;
	const int fds[LINKS_FDS] = {r->file_fd, session ? r->progs.session : r->progs.entry,
				    r->progs.ret};
	struct links_message *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return -ENOMEM;
	m->op = LINKS_ATTACH;
	m->owner = r->owner;
	m->mech = r->mech;
	m->pid = r->pid;
	m->cnt = r->cnt;
	memcpy(m->group_cnt, r->group_cnt, sizeof(m->group_cnt));
	for (unsigned i = 0; i < r->cnt; i++) {
		m->sites[i].off = r->offs[i];
		m->sites[i].cookie = r->cookies[i];
	}
	ret = ask(l, m, fds, session ? 2 : 3);
	free(m);
	return ret;
}

static void keep(struct links *l, const struct links_answer *answer)
{
	struct late_answer *late = malloc(sizeof(*late));

	if (!late)
		return;
	late->next = l->late;
	late->answer = *answer;
	l->late = late;
}

/* Waits for the answer about owner, unless the process hangs in the kernel and was waited for
 * already. */
static int await_answer(struct links *l, unsigned owner, struct links_answer *answer)
{
	while ((!l->late_cnt || l->shared->holder) && await(l, UINT32_MAX)) {
		if (take(l, answer))
			return -EPIPE;
		if (answer->owner == owner)
			return 0;
		keep(l, answer);
	}
	l->late_cnt++;
	return -EINPROGRESS;
}

void links__settle(struct links *l, enum mechanism mech)
{
	struct links_message m = {.op = LINKS_SETTLE, .mech = mech};

	ask(l, &m, NULL, 0);
}

int links__attach(struct links *l, const struct links_req *r, struct links_answer *answer)
{
	int ret = r->cnt > CT_MAX_FUNCS ? -E2BIG : request_attach(l, r);

	l->perf = r->mech == MECH_PERF;
	return ret ? ret : await_answer(l, r->owner, answer);
}

bool links__next(struct links *l, struct links_answer *answer)
{
	struct late_answer *late = l->late;

	if (late) {
		*answer = late->answer;
		l->late = late->next;
		free(late);
	} else if (!l->late_cnt || !has_answer(l, 0) || take(l, answer)) {
		return false;
	}
	l->late_cnt--;
	return true;
}

static bool has_ended(const struct links *l)
{
	struct pollfd p = {.fd = l->sock};

	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

bool links__is_gone(const struct links *l)
{
	return !l->closing && has_ended(l);
}

pid_t links__holder(const struct links *l)
{
	return l->shared->holder ?: mmap_waiters__suspect(l->pid);
}

int links__close(struct links *l, unsigned owner)
{
	struct links_message m = {.op = LINKS_CLOSE, .owner = owner};
	struct links_answer answer;
	int ret = ask(l, &m, NULL, 0);

	return ret ? ret : await_answer(l, owner, &answer);
}

void links__close_soon(struct links *l, unsigned owner)
{
	struct links_message m = {.op = LINKS_CLOSE_SOON, .owner = owner};

	ask(l, &m, NULL, 0);
}

bool links__close_all(struct links *l, enum mechanism mech)
{
	struct links_message m = {.op = LINKS_CLOSE_ALL};
	uint64_t end = now_ms() + (mech == MECH_PERF ? CLOSE_PERF_MS : CLOSE_MS), now;
	struct links_answer answer = {0};

	if (!l->pid || l->closing)
		return !l->pid || l->closed;
	l->closing = true;
	if (ask(l, &m, NULL, 0))
		l->closed = has_ended(l);
	/* Late answers come first. */
	while (!l->closed && (now = now_ms()) < end && await(l, end - now))
		l->closed = take(l, &answer) || answer.owner == LINKS_NOBODY;
	return l->closed;
}
