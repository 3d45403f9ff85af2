/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages to a collector: the JSON mapping of opentelemetry-proto 1.x. Ids are hexadecimal, 64-bit
 * numbers are strings, enums are numbers. */
#ifndef OTLP_MESSAGE_H
#define OTLP_MESSAGE_H

#include <stdbool.h>

#include "metrics/metrics.h"

/* Random ids; the creator of a span draws them. */
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
	const char *name, *function; /* of an iteration: function that ended it */
	uint64_t start_ns, end_ns;   /* since the epoch */
	/* Omitted if NULL or "". */
	const char *class, *kernel, *direction, *error;
	bool has_stream, has_bytes;
	uint64_t stream, bytes;
	uint64_t iteration; /* 0: a call; otherwise the iteration's number in its thread */
	uint64_t calls, launches, errors;
};

/* A span of a call that has returned; without ids. epoch_ns: offset to add to CLOCK_MONOTONIC. The
 * span points into the event. */
struct otlp_span otlp_span_of_call(const struct trace_event *ev, const struct labels *l,
				   const char *command, uint64_t epoch_ns);

/* Puts one element of resourceSpans, up to its spans: the same bytes for the same process. */
void otlp_put_process(struct out *o, const struct otlp_span *s, const char *host,
		      const char *version);
/* Puts one element of spans. */
void otlp_put_span(struct out *o, const struct otlp_span *s);

/* A dossier, as an event: a log record with an event name. Texts may be "". */
struct otlp_dossier {
	const struct labels *labels; /* of its process */
	const char *command, *redacted;
	uint32_t pid;
	uint64_t time_ns; /* since the epoch */
	bool is_failure;  /* else someone requested it */
	const char *reason, *folder, *cause, *verdict;
};

/* Puts a complete request. */
void otlp_put_dossier(struct out *o, const struct otlp_dossier *d, const char *host,
		      const char *version);

/* Puts a complete request; returns the number of data points. */
uint64_t otlp_put_metrics(struct out *o, const struct metrics *m, const struct metrics_self *self,
			  const char *host, uint64_t now_ns);

/* Used in both messages. Puts a comma before every element except the first. */
void otlp_comma(struct out *o);
void otlp_put_attr(struct out *o, const char *key, const char *value);
/* "key":"value" */
void otlp_put_u64(struct out *o, const char *key, uint64_t value);
void otlp_put_scope(struct out *o, const char *version);

#endif /* OTLP_MESSAGE_H */
