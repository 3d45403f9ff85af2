/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A listening socket in the daemon's loop: accepts a few connections in each turn, however many
 * wait. (libevent's evconnlistener accepts them as long as there are any.) */
#ifndef DAEMON_LISTENER_H
#define DAEMON_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct listener;
struct event_base;

struct listen_address {
	struct sockaddr_storage addr;
	socklen_t len;
};

/* fd: a non-blocking connection, which fn owns. */
typedef void (*listener_fn)(void *ctx, int fd, const struct sockaddr_storage *from);

/* Reads ADDRESS:PORT (metrics.listen). Returns false, and why: no address can be meant. */
bool listener__resolve(const char *text, struct listen_address *a, char *why, size_t size);
/* Returns a socket that listens there, or -errno. other: a socket of ours that may have the same
 * port, or -1. */
int listener__bind(const struct listen_address *a, int other);
/* Takes listening_fd, even on failure. NULL: out of memory. */
struct listener *listener__new(struct event_base *base, int listening_fd, listener_fn fn,
			       void *ctx);
/* Accepts none for this time: they wait in the kernel. d may be NULL. */
void listener__pause(struct listener *d, uint64_t ns);
void listener__free(struct listener *d);

#endif /* DAEMON_LISTENER_H */
