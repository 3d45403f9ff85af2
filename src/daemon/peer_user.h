/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The user of the other end of a TCP connection from this machine, by netlink (sock_diag(7)). */
#ifndef DAEMON_PEER_USER_H
#define DAEMON_PEER_USER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Opens the netlink socket, once for the process: the sandbox forbids it later. Without it, no user
 * is found. */
void peer_user__start(void);
/* Finds the user, in the daemon's user namespace. false: the other end is in another network
 * namespace or on another machine, or its process has closed it. Does not wait. */
bool peer_user__of(int fd, const struct sockaddr_storage *peer, uid_t *uid);

#endif /* DAEMON_PEER_USER_H */
