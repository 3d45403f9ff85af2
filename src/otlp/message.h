/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is sent to a collector: the JSON mapping of opentelemetry-proto 1.x. Ids are hexadecimal,
 * 64-bit numbers are strings, enums are numbers. */
#ifndef OTLP_MESSAGE_H
#define OTLP_MESSAGE_H

#include <stdbool.h>

#include "metrics/metrics.h"

/* Random; whoever makes a span draws them. */
struct otlp_ids {
	uint8_t trace[16], span[8];
};

struct otlp_span {
	struct otlp_ids ids;
	const uint8_t *parent;	     /* 8 bytes; NULL: none */
	const struct labels *labels; /* of its process */
	const char *command;	     /* of its process; any bytes */
	const char *redacted;	     /* api_redact_name() */
	uint32_t pid, tid;
	const char *name, *function; /* of an iteration: that ended it */
	uint64_t start_ns, end_ns;   /* since the epoch */
	/* NULL or "": left out */
	const char *class, *kernel, *direction, *error;
	bool has_stream, has_bytes;
	uint64_t stream, bytes;
	uint64_t iteration; /* 0: it is a call; otherwise which one of its thread */
	uint64_t calls, launches, errors;
};

/* A call that has returned; without ids. epoch_ns: what to add to CLOCK_MONOTONIC. The span points
 * into the event. */
struct otlp_span otlp_span_of_call(const struct trace_event *ev, const struct labels *l,
				   const char *command, uint64_t epoch_ns);

/* One element of resourceSpans, up to its spans: the same bytes for the same process. */
void otlp_put_process(struct out *o, const struct otlp_span *s, const char *host,
		      const char *version);
/* One element of spans. */
void otlp_put_span(struct out *o, const struct otlp_span *s);

/* A whole request; returns how many data points there are. */
uint64_t otlp_put_metrics(struct out *o, const struct metrics *m, const struct metrics_self *self,
			  const char *host, uint64_t now_ns);

/* Parts of both. A comma comes before what is no first element. */
void otlp_comma(struct out *o);
void otlp_put_attr(struct out *o, const char *key, const char *value);
/* "key":"value" */
void otlp_put_u64(struct out *o, const char *key, uint64_t value);
void otlp_put_scope(struct out *o, const char *version);

#endif /* OTLP_MESSAGE_H */
