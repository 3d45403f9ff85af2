/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/safe_close.h"

/* Connections accepted in one turn of the loop, and the time after which no more are. */
#define BATCH	 64
#define BATCH_NS (SEC_NS / 1000)

#define BACKLOG 1024
/* Socket buffers that the kernel may use for a connection. */
#define RECEIVE_SZ 16384
#define SEND_SZ	   16384

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

/* Splits ADDRESS:PORT; false when it is invalid. */
static bool split(const char *text, char host[128], const char **port)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;
	long num;

	if (!colon || len >= 128)
		return false;
	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	errno = 0;
	num = strtol(colon + 1, &end, 10);
	*port = colon + 1;
	return !errno && *end == '\0' && end > colon + 1 && num >= 0 && num <= 65535;
}

bool listener__resolve(const char *text, struct listen_address *a, char *why, size_t size)
{
	const struct evutil_addrinfo hints = {.ai_flags = EVUTIL_AI_PASSIVE,
					      .ai_socktype = SOCK_STREAM};
	struct evutil_addrinfo *ai = NULL;
	const char *port;
	char host[128];

	if (!split(text, host, &port)) {
		snprintf(why, size,
			 "metrics.listen: '%s' is not an address with a port; write it as "
			 "127.0.0.1:9464",
			 text);
		return false;
	}
	if (evutil_getaddrinfo(*host ? host : NULL, port, &hints, &ai) || !ai) {
		snprintf(
			why, size,
			"metrics.listen: cannot listen on %s: it is not an address of this machine",
			text);
		return false;
	}
	*a = (struct listen_address){.len = ai->ai_addrlen};
	memcpy(&a->addr, ai->ai_addr, ai->ai_addrlen);
	evutil_freeaddrinfo(ai);
	return true;
}

/* While both sockets have the option, they may have the same port. */
static void share_port(int fd, int other, int on)
{
	if (other < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(other, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
}

int listener__bind(const struct listen_address *a, int other)
{
	const int on = 1, receive = RECEIVE_SZ, send = SEND_SZ;
	int fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), ret;

	share_port(fd, other, 1);
	/* Accepted connections inherit the buffer sizes. */
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof(receive)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send, sizeof(send)) &&
	    !bind(fd, (const struct sockaddr *)&a->addr, a->len) && !listen(fd, BACKLOG))
		ret = fd;
	else
		ret = -errno;
	share_port(fd, other, 0);
	if (fd >= 0 && ret < 0)
		close(fd);
	return ret;
}
