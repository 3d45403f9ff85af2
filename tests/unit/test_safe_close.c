/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Descriptors whose last close takes 40 s: nothing waits for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/safe_close.h"

#define CONNS	 50
#define LINGER_S 40

static struct sockaddr_in listener;
static int listen_fd;

static int open_listener(void **state)
{
	socklen_t len = sizeof(listener);

	listen_fd = socket(AF_INET, SOCK_STREAM, 0);
	listener.sin_family = AF_INET;
	listener.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return bind(listen_fd, (void *)&listener, sizeof(listener)) ||
	       listen(listen_fd, 2 * CONNS) || getsockname(listen_fd, (void *)&listener, &len) ||
	       !safe_close__start();
}

/* A connection with unsent data. */
static int lingering(void)
{
	static const char data[65536];
	const struct linger l = {1, LINGER_S};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_return_code(connect(fd, (void *)&listener, sizeof(listener)), errno);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	return fd;
}

static void send_fd(int sock, int fd, size_t len)
{
	static char data[64];
	struct iovec iov = {data, len};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} room = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room.bytes,
			     .msg_controllen = sizeof(room.bytes)};

	memcpy(CMSG_DATA(&room.head), &fd, sizeof(fd));
	assert_int_equal(sendmsg(sock, &msg, 0), len);
	close(fd);
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

static void test_close(void **state)
{
	const struct timespec ms = {0, 1000000};
	uint64_t begin, took;
	int fds[CONNS], peers[CONNS];
	char byte;

	for (int i = 0; i < CONNS; i++) {
		int pair[2];

		assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), errno);
		send_fd(pair[1], lingering(), i % 2);
		fds[i] = pair[0];
		peers[i] = pair[1];
	}
	begin = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CONNS; i++) {
		assert_int_equal(safe_recv(fds[i], &byte, 1), -1);
		assert_int_equal(errno, EPERM);
		safe_close(fds[i]);
		assert_int_equal(recv(peers[i], &byte, 1, MSG_DONTWAIT), 0);
	}
	for (int i = 0; i < CONNS; i++)
		while (!is_closed(fds[i]))
			nanosleep(&ms, NULL);
	took = clock_ns(CLOCK_MONOTONIC) - begin;
	assert_true(took < LINGER_S / 2 * SEC_NS);
	for (int i = 0; i < CONNS; i++)
		close(peers[i]);
}

/* Messages before one with descriptors are received; in a stream, not those just before it. */
static void test_recv(void **state)
{
	static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};

	for (int i = 0; i < 2; i++) {
		char buf[8];
		int pair[2];

		assert_return_code(socketpair(AF_UNIX, types[i], 0, pair), errno);
		assert_int_equal(safe_recv(pair[0], buf, sizeof(buf)), -1);
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(send(pair[1], "1234", 4, 0), 4);
		assert_int_equal(safe_recv(pair[0], buf, sizeof(buf)), 4);
		assert_memory_equal(buf, "1234", 4);
		assert_int_equal(send(pair[1], "1234567890", 10, 0), 10);
		send_fd(pair[1], dup(0), 1);
		if (types[i] == SOCK_SEQPACKET)
			assert_int_equal(safe_recv(pair[0], buf, sizeof(buf)), 8);
		assert_int_equal(safe_recv(pair[0], buf, sizeof(buf)), -1);
		assert_int_equal(errno, EPERM);
		safe_close(pair[0]);
		close(pair[1]);
	}
}

/* The peer has closed. */
static void test_end(void **state)
{
	char byte;
	int pair[2];

	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), errno);
	close(pair[1]);
	assert_int_equal(safe_recv(pair[0], &byte, 1), 0);
	safe_close(pair[0]);
	safe_close(-1);
}

/* It has closed the descriptors that block. */
static void test_stop(void **state)
{
	uint64_t begin = clock_ns(CLOCK_MONOTONIC);
	int fds[CONNS];

	for (int i = 0; i < CONNS; i++)
		safe_close(fds[i] = lingering());
	safe_close__stop();
	for (int i = 0; i < CONNS; i++)
		assert_true(is_closed(fds[i]));
	assert_true(clock_ns(CLOCK_MONOTONIC) - begin < LINGER_S / 2 * SEC_NS);
	safe_close__stop();
	assert_true(safe_close__start());
	safe_close__stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_recv),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, open_listener, NULL);
}
