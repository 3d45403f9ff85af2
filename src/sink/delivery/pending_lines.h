/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * JSON lines that wait, as text, for their calls' GPU executions (--gpu-time). Used where the
 * writer inspects each line, for several files. They leave in the order in which they arrived.
 */
#ifndef SINK_DELIVERY_PENDING_LINES_H
#define SINK_DELIVERY_PENDING_LINES_H

#include "pending.h"
#include "model/trace.h"

struct line {
	const char *text; /* with its newline */
	size_t len;
	/* From its event. */
	uint64_t end_ns;   /* 0: none */
	uint64_t stack_id; /* stack that it has or defines; 0: none */
	enum event_kind kind;
	enum event_type type;
	bool unfinished, abandoned;
};

/* Without its text. */
struct line line_of(const struct trace_event *ev);
/* The id of a call that waits; else 0. */
uint64_t line_waits_for(const struct trace_event *ev);
/* Counts the line for the end of its file. */
void line__count(const struct line *l, struct trace_end *end);
/* Adds the counts of lines. */
void line__count_all(const struct trace_end *lines, struct trace_end *end);

/* Gets a line with the times that have arrived. Must not add lines. */
typedef void (*pending_lines_fn)(void *ctx, const struct line *l);

struct pending_lines;

/* max: limit of bytes; base_ns: origin of ts. NULL: no memory. */
struct pending_lines *pending_lines__new(size_t max, uint64_t base_ns, pending_lines_fn fn,
					 void *ctx);
/* id: the waiting call, whose times belong at gpu_at (sink.h) of the text; or 0. When memory is
 * full the oldest lines leave. false: no memory, or the line exceeds the limit. Then no lines are
 * left, and the caller has to write it. */
bool pending_lines__add(struct pending_lines *q, const struct line *l, uint64_t id, size_t gpu_at,
			uint64_t now_ns);
/* EVENT_GPU; false: no line of its call is pending. */
bool pending_lines__executed(struct pending_lines *q, const struct trace_event *ev);
/* Releases lines that have waited long enough. */
void pending_lines__tick(struct pending_lines *q, uint64_t now_ns);
/* Releases all. */
void pending_lines__release(struct pending_lines *q);
/* Drops all lines. q may be NULL. */
void pending_lines__free(struct pending_lines *q);

#endif /* SINK_DELIVERY_PENDING_LINES_H */
