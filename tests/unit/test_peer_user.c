/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The user of the other end of a connection from this machine. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/peer_user.h"

static struct sockaddr_storage from;

/* The listener accepts IPv4, too. */
static int listen_on(uint16_t *port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (void *)&a, sizeof(a)))
		return -1;
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (void *)&a, &len), 0);
	*port = a.sin6_port;
	return fd;
}

static int connect_to(const char *address, uint16_t port)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = port};
	bool is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
	int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM, 0);

	if (!is_four)
		inet_pton(AF_INET6, address, &six.sin6_addr);
	if (connect(fd, is_four ? (void *)&four : (void *)&six,
		    is_four ? sizeof(four) : sizeof(six)))
		_exit(1);
	return fd;
}

/* A process of that user connects; *child is its process, which lives until it is waited for. */
static int accept_from(int listener, const char *address, uint16_t port, uid_t uid, int end[2],
		       pid_t *child)
{
	socklen_t len = sizeof(from);
	char c;

	assert_int_equal(pipe(end), 0);
	*child = fork();
	if (!*child) {
		close(end[1]);
		if (geteuid() == 0 && setuid(uid))
			_exit(1);
		connect_to(address, port);
		(void)!read(end[0], &c, 1);
		_exit(0);
	}
	return accept(listener, (void *)&from, &len);
}

static void finish(pid_t child, const int end[2])
{
	close(end[0]);
	close(end[1]);
	waitpid(child, NULL, 0);
}

/* Returns whether the kernel has tcp_diag, which some are built without. */
static bool can_query(void)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 0},
	};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
	struct nlmsghdr r[64] = {0};
	bool can = fd >= 0 && send(fd, &q, sizeof(q), 0) == sizeof(q) &&
		   recv(fd, r, sizeof(r), 0) >= (ssize_t)sizeof(r[0]) &&
		   r[0].nlmsg_type != NLMSG_ERROR;

	close(fd);
	return can;
}

/* The same ports at another address: a client of another machine, whose user is unknown. */
static bool is_local_from_elsewhere(int fd)
{
	struct sockaddr_storage other = from;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&other;
	uid_t uid;

	inet_pton(AF_INET6,
		  IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) ? "::ffff:192.0.2.1" : "2001:db8::1",
		  &six->sin6_addr);
	return peer_user__of(fd, &other, &uid);
}

static void test_user(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "127.7.1.2", "::ffff:127.0.0.1",
						"::1"};
	const uid_t uid = geteuid() ? geteuid() : 4321;
	uint16_t port = 0;
	int listener = listen_on(&port), end[2];
	pid_t child;

	if (listener < 0 || !can_query())
		skip();
	for (unsigned i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		int fd = accept_from(listener, addresses[i], port, uid, end, &child);
		uid_t got = -1;

		assert_true(fd >= 0);
		assert_true(peer_user__of(fd, &from, &got));
		assert_int_equal(got, uid);
		assert_false(is_local_from_elsewhere(fd));
		finish(child, end);
		/* The process has ended: nobody has the socket. It is not root's. */
		assert_false(peer_user__of(fd, &from, &got));
		close(fd);
	}
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_user)};

	peer_user__start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
