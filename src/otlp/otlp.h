/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spans and metrics for an OpenTelemetry collector: OTLP over HTTP, in its JSON encoding. Nothing
 * here waits: requests run in the caller's event loop. What does not get through is tried again,
 * later and later; meanwhile spans wait in a queue with bounds (queue.h). Metrics
 * are sums since the start, so the newest are all that is ever kept of them.
 */
#ifndef OTLP_OTLP_H
#define OTLP_OTLP_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct metrics;
struct metrics_self;
struct otlp;
struct otlp_span;

struct otlp_opts {
	const char *version;
	const char *headers_file; /* lines "Name: value", read for each request; "": none */
	bool gzip;
	uint64_t queue; /* spans that may wait */
	/* Called every interval_ns: what is counted now. */
	const struct metrics *(*metrics)(void *ctx, struct metrics_self *self);
	void *ctx;
	uint64_t interval_ns;
};

struct otlp_stats {
	uint64_t sent;	  /* spans and data points that the collector took */
	uint64_t failed;  /* requests that failed, each attempt counted */
	uint64_t dropped; /* spans that found the queue full, or that the collector refused */
	uint64_t queued;  /* spans that wait, those of a request under way too */
	uint64_t queued_bytes;
};

/* What is wrong with an endpoint (http://HOST[:4318][/PATH]), how to write it; NULL: nothing. */
const char *otlp_endpoint_problem(const char *endpoint);

/* Texts of opts must live as long. Reports its own errors (what to do). NULL on error. */
struct otlp *otlp__new(struct event_base *base, const char *endpoint, const struct otlp_opts *opts);
/* What was not sent is lost. */
void otlp__free(struct otlp *o);

/* Copies all that it needs. */
void otlp__span(struct otlp *o, const struct otlp_span *s);
/* Sends what waits and the last metrics, once; the event loop has to run until otlp__is_done(). */
void otlp__finish(struct otlp *o);
bool otlp__is_done(const struct otlp *o);
void otlp__stats(const struct otlp *o, struct otlp_stats *s);

#endif /* OTLP_OTLP_H */
