/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "listener.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/safe_close.h"

/* Connections accepted in one turn of the loop, and the time after which no more are. */
#define BATCH	 64
#define BATCH_NS (SEC_NS / 1000)

struct listener {
	struct event *ev, *resume_ev;
	listener_fn fn;
	void *ctx;
	int fd;
};

static void on_connection(evutil_socket_t fd, short what, void *ctx)
{
	struct sockaddr_storage from;
	struct listener *d = ctx;
	uint64_t end = now_ns() + BATCH_NS;

	for (int i = 0; i < BATCH && (!i || now_ns() < end) && event_pending(d->ev, EV_READ, NULL);
	     i++) {
		socklen_t len = sizeof(from);
		int conn =
			accept4(fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (conn >= 0) {
			d->fn(d->ctx, conn, &from);
			continue;
		}
		/* Without descriptors or memory, accept() would be retried again and again. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			listener__pause(d, SEC_NS);
		return;
	}
}

static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
	const struct listener *d = ctx;

	event_add(d->ev, NULL);
}

void listener__pause(struct listener *d, uint64_t ns)
{
	const struct timeval later = {.tv_sec = ns / SEC_NS, .tv_usec = ns % SEC_NS / 1000 + 1};

	if (!d)
		return;
	event_del(d->ev);
	event_add(d->resume_ev, &later);
}

struct listener *listener__new(struct event_base *base, int listening_fd, listener_fn fn, void *ctx)
{
	struct listener *d = calloc(1, sizeof(*d));

	if (!d) {
		close(listening_fd);
		return NULL;
	}
	*d = (struct listener){.fn = fn, .ctx = ctx, .fd = listening_fd};
	d->ev = event_new(base, d->fd, EV_READ | EV_PERSIST, on_connection, d);
	d->resume_ev = event_new(base, -1, 0, on_resume, d);
	if (d->ev && d->resume_ev && !event_add(d->ev, NULL))
		return d;
	listener__free(d);
	return NULL;
}

void listener__free(struct listener *d)
{
	if (!d)
		return;
	if (d->ev)
		event_free(d->ev);
	if (d->resume_ev)
		event_free(d->resume_ev);
	safe_close(d->fd);
	free(d);
}
