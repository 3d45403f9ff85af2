/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GET and HEAD of /metrics, /healthz, / and HTTP_PROFILE, in the daemon's loop. */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct http;
struct out;

/* Limit of connections, and the daemon's memory for each. */
#define HTTP_CLIENTS	256
#define HTTP_CLIENT_SZ	(10 << 10)
#define HTTP_CLIENTS_SZ (HTTP_CLIENTS * HTTP_CLIENT_SZ)

#define HTTP_PROFILE "/debug/pprof/cuda"

struct http_ops {
	void (*metrics)(void *ctx, struct out *o);
	/* Puts the last complete profile; nothing if there is none yet. NULL: there are no
	 * profiles. */
	void (*profile)(void *ctx, struct out *o);
	/* false: /healthz answers 503 */
	bool (*healthy)(void *ctx);
	void *ctx;
};

/* listen: ADDRESS:PORT, with [] around an IPv6 address; an empty address means all. Reports its own
 * errors, with advice. NULL on error. */
struct http *http__new(struct event_base *base, const char *listen, const struct http_ops *ops);
/* Connections that were closed early to make space for others. */
uint64_t http__closed(const struct http *h);
void http__free(struct http *h);

#endif /* DAEMON_HTTP_H */
