/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends one POST at a time to an address of a collector, with libevent's evhttp, and interprets
 * the response. */
#ifndef OTLP_HTTP_H
#define OTLP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct evdns_base;
struct otlp_http;

struct otlp_http_opts {
	const char *endpoint, *path; /* the URL is the endpoint's own path plus this one */
	const char *version;
	const char *headers_file;
	bool gzip;
	bool protobuf; /* the content is not JSON */
};

struct otlp_answer {
	bool ok;
	bool retry;		 /* the collector may accept the same later */
	uint64_t retry_after_ns; /* minimum delay that it requested */
	uint64_t rejected;	 /* items rejected from an accepted request */
	const char *why;
};

/* NULL: out of memory, or an invalid endpoint. */
struct otlp_http *otlp_http__new(struct event_base *base, struct evdns_base *dns,
				 const struct otlp_http_opts *opts);
/* A request in progress gets no answer. */
void otlp_http__free(struct otlp_http *h);
/* fn is called from the loop, never from this function; false: it is not called. */
bool otlp_http__post(struct otlp_http *h, const char *body, size_t len,
		     void (*fn)(void *ctx, const struct otlp_answer *a), void *ctx);

#endif /* OTLP_HTTP_H */
