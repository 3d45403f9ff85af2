/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets in memory, for libevent and the daemon's code: system calls, which took four fifths of a
 * run's time, are simulated here. Included by one file of a program: it defines libc's functions.
 * Other descriptors go to the kernel; epoll supports only simulated ones.
 */
#ifndef TESTS_FUZZ_SOCKETS_H
#define TESTS_FUZZ_SOCKETS_H

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SOCK_FIRST 512 /* above all of the kernel's */
#define SOCKS_MAX  320
#define SOCK_IN_SZ 2048
/* Bytes accepted before the other end reads, and how many of these it can read. */
#define SOCK_OUT_MAX 65536
#define SOCK_KEPT    16384

/* Its place is reused when both ends are closed. */
struct sock {
	bool open, hung_up; /* our end is closed; their end was */
	struct epoll_event wants;
	size_t in_at, in_len, out_len;
	char in[SOCK_IN_SZ], out[SOCK_KEPT];
};

static struct sock socks[SOCKS_MAX];
static unsigned sock_end; /* no data comes after this */
static struct ucred sock_peer;
static int sock_connected = -1; /* the last created one: a caller of connect() gets it from here */

static struct sock *sock_of(int fd)
{
	return fd >= SOCK_FIRST && fd < SOCK_FIRST + SOCKS_MAX ? &socks[fd - SOCK_FIRST] : NULL;
}

static bool sock_is_free(const struct sock *s)
{
	return !s->open && s->hung_up;
}

static void sock_release(void)
{
	while (sock_end && sock_is_free(&socks[sock_end - 1]))
		sock_end--;
}

/* The other end, which has the same number. */

static int sock_new(void)
{
	unsigned i = 0;

	while (i < sock_end && !sock_is_free(&socks[i]))
		i++;
	assert(i < SOCKS_MAX);
	socks[i].open = true;
	socks[i].hung_up = false;
	socks[i].wants.events = 0;
	socks[i].in_at = socks[i].in_len = socks[i].out_len = 0;
	sock_end = i == sock_end ? i + 1 : sock_end;
	return SOCK_FIRST + i;
}

/* It is lost when our end is closed. */
static void sock_put(int fd, const void *data, size_t len)
{
	struct sock *s = sock_of(fd);

	if (s->in_at == s->in_len)
		s->in_at = s->in_len = 0;
	assert(!s->hung_up && len <= SOCK_IN_SZ - s->in_len);
	if (!s->open)
		return;
	memcpy(s->in + s->in_len, data, len);
	s->in_len += len;
}

static void sock_hang_up(int fd)
{
	struct sock *s = sock_of(fd);

	assert(!s->hung_up);
	s->hung_up = true;
	sock_release();
}

/* What was sent since the last time: SOCK_KEPT bytes of it at most. */
static const char *sock_take(int fd, size_t *len)
{
	struct sock *s = sock_of(fd);

	assert(!s->hung_up);
	*len = s->out_len;
	s->out_len = 0;
	return s->out;
}

/* Ours */

static ssize_t sock_read(struct sock *s, void *to, size_t len)
{
	size_t left = s->in_len - s->in_at;

	assert(s->open);
	if (s->hung_up && s->out_len) { /* its end was closed with that unread */
		errno = ECONNRESET;
		return -1;
	}
	if (!left && !s->hung_up) {
		errno = EAGAIN;
		return -1;
	}
	len = len < left ? len : left;
	memcpy(to, s->in + s->in_at, len);
	s->in_at += len;
	return len;
}

static ssize_t sock_write(struct sock *s, const struct iovec *iov, size_t cnt)
{
	size_t sum = 0;

	assert(s->open);
	errno = s->hung_up ? EPIPE : EAGAIN;
	if (s->hung_up || s->out_len == SOCK_OUT_MAX)
		return -1;
	for (size_t i = 0; i < cnt; i++) {
		size_t room = SOCK_OUT_MAX - s->out_len, n = iov[i].iov_len, kept = 0;

		n = n < room ? n : room;
		if (s->out_len < SOCK_KEPT)
			kept = n < SOCK_KEPT - s->out_len ? n : SOCK_KEPT - s->out_len;
		if (kept)
			memcpy(s->out + s->out_len, iov[i].iov_base, kept);
		s->out_len += n;
		sum += n;
	}
	return sum;
}

/* libc's headers may have an inline recv(). */
ssize_t sock_recv(int fd, void *to, size_t len, int flags) __asm__("recv");
ssize_t sock_recv(int fd, void *to, size_t len, int flags)
{
	struct sock *s = sock_of(fd);

	return s ? sock_read(s, to, len) : syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
}

ssize_t readv(int fd, const struct iovec *iov, int cnt)
{
	struct sock *s = sock_of(fd);
	ssize_t sum = 0, n;

	if (!s)
		return syscall(SYS_readv, fd, iov, cnt);
	for (int i = 0; i < cnt && (!i || s->in_at < s->in_len); i++) {
		n = sock_read(s, iov[i].iov_base, iov[i].iov_len);
		if (n < 0)
			return n;
		sum += n;
	}
	return sum;
}

ssize_t writev(int fd, const struct iovec *iov, int cnt)
{
	struct sock *s = sock_of(fd);

	return s ? sock_write(s, iov, cnt) : syscall(SYS_writev, fd, iov, cnt);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sock *s = sock_of(fd);

	return s ? sock_write(s, msg->msg_iov, msg->msg_iovlen)
		 : syscall(SYS_sendmsg, fd, msg, flags);
}

int close(int fd)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return syscall(SYS_close, fd);
	assert(s->open);
	s->open = false;
	sock_release();
	return 0;
}

int shutdown(int fd, int how)
{
	return sock_of(fd) ? 0 : syscall(SYS_shutdown, fd, how);
}

int socket(int family, int type, int protocol)
{
	return (type & 15) == SOCK_STREAM ? sock_new()
					  : syscall(SYS_socket, family, type, protocol);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	if (!sock_of(fd))
		return syscall(SYS_connect, fd, addr, len);
	if (sock_connected >= 0)
		sock_hang_up(sock_connected);
	sock_connected = fd;
	return 0;
}

int getpeername(int fd, struct sockaddr *restrict addr, socklen_t *restrict len)
{
	if (!sock_of(fd))
		return syscall(SYS_getpeername, fd, addr, len);
	*addr = (struct sockaddr){.sa_family = AF_UNIX};
	*len = sizeof(addr->sa_family);
	return 0;
}

int getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	if (!sock_of(fd))
		return syscall(SYS_getsockopt, fd, level, name, val, len);
	memset(val, 0, *len); /* SO_ERROR: none; SO_PEERGROUPS: one, that of root */
	if (name == SO_PEERCRED)
		memcpy(val, &sock_peer, sizeof(sock_peer));
	if (name == SO_PEERGROUPS)
		*len = sizeof(gid_t);
	return 0;
}

int ioctl(int fd, unsigned long what, ...)
{
	struct sock *s = sock_of(fd);
	va_list ap;
	void *arg;

	va_start(ap, what);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!s)
		return syscall(SYS_ioctl, fd, what, arg);
	assert(what == FIONREAD);
	*(int *)arg = s->in_len - s->in_at;
	return 0;
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	struct sock *s = sock_of(fd);

	if (!s)
		return syscall(SYS_epoll_ctl, epoll, op, fd, event);
	assert(s->open);
	s->wants = op == EPOLL_CTL_DEL ? (struct epoll_event){0} : *event;
	s->wants.events |= op == EPOLL_CTL_DEL ? 0 : EPOLLHUP;
	return 0;
}

int epoll_wait(int epoll, struct epoll_event *events, int max, int timeout)
{
	int cnt = 0;

	for (unsigned i = 0; i < sock_end && cnt < max; i++) {
		const struct sock *s = &socks[i];
		uint32_t now = s->hung_up ? EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP : 0;

		if (!s->open || !s->wants.events)
			continue;
		now |= s->in_at < s->in_len ? EPOLLIN : 0;
		now |= s->out_len < SOCK_OUT_MAX ? EPOLLOUT : 0;
		now &= s->wants.events;
		if (!now)
			continue;
		events[cnt] = s->wants;
		events[cnt++].events = now;
	}
	return cnt;
}

#endif /* TESTS_FUZZ_SOCKETS_H */
