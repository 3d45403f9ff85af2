/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static int netlink_fd = -1;

void peer_user__start(void)
{
	if (netlink_fd < 0)
		netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
				    NETLINK_SOCK_DIAG);
}

/* Returns the family. An IPv4 address that is mapped to IPv6 becomes IPv4. */
static int address(const struct sockaddr_storage *a, __be16 *port, __be32 addr[4])
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *four = (const struct sockaddr_in *)a;

	memset(addr, 0, 4 * sizeof(addr[0]));
	if (a->ss_family == AF_INET) {
		*port = four->sin_port;
		addr[0] = four->sin_addr.s_addr;
		return AF_INET;
	}
	*port = six->sin6_port;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(addr, &six->sin6_addr.s6_addr[12], 4);
		return AF_INET;
	}
	memcpy(addr, &six->sin6_addr, 16);
	return AF_INET6;
}

/* A closed socket has no inode, and user 0. If the socket does not exist, the kernel returns one
 * that listens on its port: that has another id. */
static bool is_answer(const struct inet_diag_msg *m, const struct inet_diag_sockid *id)
{
	return m->idiag_inode && m->id.idiag_sport == id->idiag_sport &&
	       m->id.idiag_dport == id->idiag_dport;
}

bool peer_user__of(int fd, const struct sockaddr_storage *peer, uid_t *uid)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.req = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
	};
	static uint32_t seq;
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	struct inet_diag_sockid *id = &q.req.id;
	union {
		struct nlmsghdr head;
		char bytes[1024];
	} r;
	ssize_t n;

	if (netlink_fd < 0 || getsockname(fd, (struct sockaddr *)&local, &len))
		return false;
	q.head.nlmsg_seq = ++seq;
	q.req.sdiag_family = address(peer, &id->idiag_sport, id->idiag_src);
	address(&local, &id->idiag_dport, id->idiag_dst);
	if (peer->ss_family == AF_INET6)
		id->idiag_if = ((const struct sockaddr_in6 *)peer)->sin6_scope_id;
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (send(netlink_fd, &q, sizeof(q), MSG_DONTWAIT) != sizeof(q))
		return false;
	/* The kernel answers within send(). Answers of earlier requests were lost to an error. */
	do
		n = recv(netlink_fd, &r, sizeof(r), MSG_DONTWAIT);
	while (n >= (ssize_t)sizeof(r.head) && r.head.nlmsg_seq != seq);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
	    r.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_answer(NLMSG_DATA(&r.head), id))
		return false;
	*uid = ((const struct inet_diag_msg *)NLMSG_DATA(&r.head))->idiag_uid;
	return true;
}
