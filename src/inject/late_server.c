/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "late_server.h"

#include "inject_priv.h"
#include "late.h"
#include "late_filter.h"
#include "late_net.h"

#include "attach/attach.h"
#include "util/child.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/safe_close.h"
#include "util/sandbox.h"
#include "util/task.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Waiting for a call, for the library, and for an earlier attach takes less. */
#define CHILD_MAX_NS 45000000000ull
#define CHECK_MS     2
#define PAUSE_MAX_NS 5000000000ull
/* The pause after a gentle request, in times of its duration. */
#define PAUSE_PARTS 4
#define WHY_SZ	    400

struct request {
	pid_t pid;
	bool gently;
	uint64_t token[2];
};

struct reply {
	enum { REPLY_NET, REPLY_DONE } what; /* NET: with a socket of that network namespace */
	pid_t pid;
	uint64_t ino;
	bool is_entered;
	char why[WHY_SZ];
};

/* --- in the server, and its children --- */

static void send_reply(const struct reply *r, int fd)
{
	struct iovec iov = {(void *)r, sizeof(*r)};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	/* The sandbox allows only this. */
	if (fd < 0) {
		(void)!send(CHILD_SOCK, r, sizeof(*r), MSG_NOSIGNAL);
		return;
	}
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
	msg.msg_control = &control;
	msg.msg_controllen = sizeof(control);
	(void)!sendmsg(CHILD_SOCK, &msg, MSG_NOSIGNAL);
}

/* The daemon's socket in its folder is not found in other mount namespaces. Returns NULL or why
 * not. */
static const char *provide_net(const struct inject *in, pid_t pid)
{
	static char why[120];
	struct reply r = {.what = REPLY_NET, .pid = pid};
	int fd = late_net__socket(in, pid, &r.ino);

	/* The daemon listens there already. */
	if (fd == -EADDRINUSE)
		return NULL;
	if (fd < 0) {
		snprintf(why, sizeof(why), "no socket can be created in its network namespace: %s",
			 strerror(-fd));
		return why;
	}
	send_reply(&r, fd);
	close(fd);
	return NULL;
}

static void __attribute__((noreturn))
serve_one(struct inject *in, struct attach *att, const struct request *req, bool sandbox)
{
	struct reply r = {.what = REPLY_DONE, .pid = req->pid};
	const char *why;
	unsigned filters;

	memcpy(in->token, req->token, sizeof(in->token));
	snprintf(in->socket_name, sizeof(in->socket_name), "%s", in->late_name);
	why = late_filter__check(att, req->pid, &filters);
	why = why ?: provide_net(in, req->pid);
	if (sandbox)
		sandbox__enter_late();
	why = why ?: late__enter(in, req->pid, filters);
	r.is_entered = !why;
	snprintf(r.why, sizeof(r.why), "%s", why ?: "");
	send_reply(&r, -1);
	_exit(0);
}

/* Returns whether it has ended by itself. */
static bool await_child(pid_t pid)
{
	const struct timespec ms = {0, CHECK_MS * 1000000};
	uint64_t begin = now_ns();
	int status;

	while (now_ns() - begin < CHILD_MAX_NS) {
		struct pollfd daemon = {.fd = CHILD_SOCK};

		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status);
		/* It restores what it has changed, and ends by itself. */
		if (poll(&daemon, 1, 0) > 0 && daemon.revents & (POLLHUP | POLLERR))
			_exit(0);
		nanosleep(&ms, NULL);
	}
	kill(pid, SIGKILL);
	return false;
}

static void rest(uint64_t ns)
{
	struct timespec t;

	ns = ns > PAUSE_MAX_NS ? PAUSE_MAX_NS : ns;
	t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	nanosleep(&t, NULL);
}

static void __attribute__((noreturn))
serve(int sock, struct inject *in, struct attach *att, bool sandbox)
{
	struct request req;
	int keep[2];
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	attach__filter_fds(att, keep);
	child_begin_with(sock, "cudatrace-late", keep);
	sandbox__enter_late_server();
	while (recv(CHILD_SOCK, &req, sizeof(req), 0) == sizeof(req)) {
		struct reply failed = {.what = REPLY_DONE, .pid = req.pid};
		uint64_t begin = now_ns();
		pid_t pid = fork();

		if (!pid)
			serve_one(in, att, &req, sandbox);
		if (pid < 0 || !await_child(pid)) {
			strcpy(failed.why, pid < 0 ? "no process can be created for it"
						   : "it did not let itself be read in time");
			send_reply(&failed, -1);
		}
		if (req.gently)
			rest(PAUSE_PARTS * (now_ns() - begin));
	}
	_exit(0);
}

/* --- in the daemon --- */

int late_server__start(struct inject *in, struct attach *att, bool sandbox, late_fn fn, void *ctx)
{
	struct epoll_event ev = {.events = EPOLLIN};
	uint64_t secret;
	int pair[2];
	pid_t pid;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		return -EIO;
	snprintf(in->late_name, sizeof(in->late_name), "@cudatrace-%d-%016llx", getpid(),
		 (unsigned long long)secret);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid = fork();
	if (!pid)
		serve(pair[1], in, att, sandbox);
	close(pair[1]);
	if (pid < 0 || epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, pair[0], &ev)) {
		close(pair[0]);
		return -EAGAIN;
	}
	in->late_sock = pair[0];
	in->late_fn = fn;
	in->late_ctx = ctx;
	return 0;
}

static uid_t user_of(pid_t pid)
{
	char text[4096];
	const char *at;
	uid_t uid = -1;

	at = task_read(pid, pid, "status", text, sizeof(text)) ? strstr(text, "\nUid:\t") : NULL;
	return at && sscanf(at, "\nUid:\t%*u %u", &uid) == 1 ? uid : (uid_t)-1;
}

/* Each user has a token of its own: a process learns the token of its user's processes only. */
static const uint64_t *token_for(struct inject *in, uid_t uid)
{
	struct late_token *t;

	for (unsigned i = 0; i < in->late_token_cnt; i++)
		if (in->late_tokens[i].uid == uid)
			return in->late_tokens[i].token;
	if (in->late_token_cnt == LATE_USERS_MAX)
		return NULL;
	t = &in->late_tokens[in->late_token_cnt];
	if (getrandom(t->token, sizeof(t->token), 0) != sizeof(t->token))
		return NULL;
	t->token[0] |= 1;
	t->uid = uid;
	in->late_token_cnt++;
	return t->token;
}

const char *late_server__request(struct inject *in, pid_t pid, bool gently)
{
	struct request req = {.pid = pid, .gently = gently};
	uid_t uid = user_of(pid);
	const uint64_t *token;

	if (in->late_sock < 0)
		return "cudatrace-late does not run";
	if (uid == (uid_t)-1)
		return "it has ended";
	token = token_for(in, uid);
	if (!token)
		return "processes of too many users were entered; restart the daemon";
	memcpy(req.token, token, sizeof(req.token));
	if (send(in->late_sock, &req, sizeof(req), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(req))
		return "too many requests wait; try again";
	return NULL;
}

/* Returns the number of bytes; *fd: -1 if none came. */
static ssize_t receive(int sock, struct reply *r, int *fd)
{
	struct iovec iov = {r, sizeof(*r)};
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	*fd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

void late_server__look(struct inject *in)
{
	struct reply r;
	ssize_t n = 1;
	int fd;

	while (in->late_sock >= 0) {
		n = receive(in->late_sock, &r, &fd);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			warn("cudatrace-late has ended: running processes are not entered any more");
			late_server__end(in);
			return;
		}
		if (n == sizeof(r) && r.what == REPLY_NET && fd >= 0) {
			listener__take_net(in, fd, r.ino);
			continue;
		}
		if (fd >= 0)
			close(fd);
		if (n != sizeof(r) || r.what != REPLY_DONE)
			continue;
		r.why[sizeof(r.why) - 1] = '\0';
		in->late_fn(in->late_ctx, r.pid, r.is_entered ? NULL : r.why);
	}
}

void late_server__end(struct inject *in)
{
	if (in->late_sock < 0)
		return;
	epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, in->late_sock, NULL);
	close(in->late_sock);
	in->late_sock = -1;
}
