/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One address of a collector: a POST at a time, by libevent's evhttp, and what its answer means. */
#ifndef OTLP_HTTP_H
#define OTLP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct evdns_base;
struct otlp_http;

struct otlp_http_opts {
	const char *endpoint, *path; /* of the endpoint's own path and this one is made */
	const char *version;
	const char *headers_file;
	bool gzip;
};

struct otlp_answer {
	bool ok;
	bool retry;		 /* it may take the same later */
	uint64_t retry_after_ns; /* it asked for that much time */
	uint64_t rejected;	 /* taken, but for so many */
	const char *why;
};

/* NULL: out of memory, or a wrong endpoint. */
struct otlp_http *otlp_http__new(struct event_base *base, struct evdns_base *dns,
				 const struct otlp_http_opts *opts);
/* A request under way gets no answer. */
void otlp_http__free(struct otlp_http *h);
/* fn comes from the loop, never from in here; false: it does not come. */
bool otlp_http__post(struct otlp_http *h, const char *body, size_t len,
		     void (*fn)(void *ctx, const struct otlp_answer *a), void *ctx);

#endif /* OTLP_HTTP_H */
