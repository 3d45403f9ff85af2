/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A socket that listens, in the daemon's loop: a few connections in each turn, however many wait.
 * (libevent's evconnlistener takes them as long as there are any.) */
#ifndef DAEMON_DOOR_H
#define DAEMON_DOOR_H

struct door;
struct event_base;
struct sockaddr_storage;

/* fd: of a connection, whose owner fn is; it does not block. */
typedef void (*door_fn)(void *ctx, int fd, const struct sockaddr_storage *from);

/* Takes listening_fd, in any case. NULL: out of memory. */
struct door *door__new(struct event_base *base, int listening_fd, door_fn fn, void *ctx);
void door__free(struct door *d);

#endif /* DAEMON_DOOR_H */
