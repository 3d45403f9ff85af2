/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GET /metrics, /healthz and /: by libevent's evhttp, in the daemon's loop. */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H

#include <stdbool.h>

struct event_base;
struct http;
struct out;

struct http_ops {
	void (*metrics)(void *ctx, struct out *o);
	/* false: /healthz answers 503 */
	bool (*healthy)(void *ctx);
	void *ctx;
};

/* listen: ADDRESS:PORT, with [] around an IPv6 address; an empty address is all. Reports its own
 * errors (what to do). NULL on error. */
struct http *http__new(struct event_base *base, const char *listen, const struct http_ops *ops);
void http__free(struct http *h);

#endif /* DAEMON_HTTP_H */
