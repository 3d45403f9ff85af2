/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sends spans, events, metrics and profiles to an OpenTelemetry collector: OTLP over HTTP, in its
 * JSON encoding; profiles in protocol buffers. Nothing here blocks: requests run in the caller's
 * event loop. Failed requests are retried with growing delays; meanwhile spans wait in a limited
 * queue (queue.h). Metrics are sums since the start, so only the newest are kept.
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
struct otlp_dossier;

struct otlp_opts {
	const char *version;
	const char *headers_file; /* lines "Name: value", read for each request; "": no file */
	bool gzip;
	uint64_t queue; /* maximum number of queued spans */
	/* Called every interval_ns; returns the current counts. */
	const struct metrics *(*metrics)(void *ctx, struct metrics_self *self);
	void *ctx;
	uint64_t interval_ns;
};

struct otlp_stats {
	uint64_t sent;	  /* spans, events and data points that the collector accepted */
	uint64_t failed;  /* requests that failed, each attempt counted */
	uint64_t dropped; /* spans, events and profiles dropped by a full queue or rejected by the
			   * collector */
	uint64_t queued;  /* queued spans, including those of a request in progress */
	uint64_t queued_bytes;
};

/* Describes an error in an endpoint (http://HOST[:4318][/PATH]) and how to fix it; NULL: none. */
const char *otlp_endpoint_problem(const char *endpoint);

/* Texts of opts must live as long as the result. Reports its own errors, with advice. NULL on
 * error. */
struct otlp *otlp__new(struct event_base *base, const char *endpoint, const struct otlp_opts *opts);
/* Unsent data is lost. */
void otlp__free(struct otlp *o);

/* Copies all data that it needs. */
void otlp__span(struct otlp *o, const struct otlp_span *s);
/* Copies all data that it needs. At most OTLP_EVENTS_MAX wait. */
#define OTLP_EVENTS_MAX 16
void otlp__dossier(struct otlp *o, const struct otlp_dossier *d);
/* Sends a request of profiles, which o takes over. It is dropped while an earlier one waits. */
struct out;
void otlp__profile(struct otlp *o, struct out *body);
/* Sends queued spans and events and the last metrics, once; the event loop has to run until
 * otlp__is_done(). */
void otlp__finish(struct otlp *o);
bool otlp__is_done(const struct otlp *o);
void otlp__stats(const struct otlp *o, struct otlp_stats *s);

#endif /* OTLP_OTLP_H */
