/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GET and HEAD of /metrics, /healthz, / and HTTP_PROFILE, in a thread that needs the daemon's loop
 * only for texts. */
#ifndef DAEMON_HTTP_H
#define DAEMON_HTTP_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct http;
struct listen_address;
struct out;

/* Limit of connections, and the daemon's memory for each. */
#define HTTP_CLIENTS	256
#define HTTP_CLIENT_SZ	(10 << 10)
#define HTTP_CLIENTS_SZ (HTTP_CLIENTS * HTTP_CLIENT_SZ)

/* The last complete profile, in pprof's format. */
#define HTTP_PROFILE "/debug/pprof/cuda"

struct http_ops {
	/* In the daemon's loop. profile puts nothing as long as there is none; NULL: there are no
	 * profiles. */
	void (*metrics)(void *ctx, struct out *o);
	void (*profile)(void *ctx, struct out *o);
	/* In the thread. false: /healthz answers 503 */
	bool (*healthy)(void *ctx);
	void *ctx;
};

/* Starts the thread, which drops all privileges: to be called before the sandbox is entered. base:
 * the daemon's loop. Reports its own errors. NULL on error. */
struct http *http__new(struct event_base *base, const struct http_ops *ops);
/* Listens on this address instead of the current one; its length is 0 to listen no longer. Returns
 * 0, or -errno: the current address stays until http__retry() succeeds. */
int http__listen(struct http *h, const struct listen_address *a);
int http__retry(struct http *h);
/* Connections that were closed early to make space for others. */
uint64_t http__closed(const struct http *h);
void http__free(struct http *h);

#endif /* DAEMON_HTTP_H */
