/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines of JSON that wait, as text, for what GPUs execute for their calls (--gpu-time): where who
 * writes them has to look at each, in several files. They go in the order in which they came.
 */
#ifndef SINK_DELIVERY_PENDING_LINES_H
#define SINK_DELIVERY_PENDING_LINES_H

#include "pending.h"
#include "model/trace.h"

struct line {
	const char *text; /* with its newline */
	size_t len;
	/* Of its event. */
	uint64_t end_ns;   /* 0: it has none */
	uint64_t stack_id; /* of what it has or defines; 0: none */
	enum event_kind kind;
	enum event_type type;
	bool unfinished, abandoned;
};

/* Without its text. */
struct line line_of(const struct trace_event *ev);
/* Its id, if it is a call that waits; else 0. */
uint64_t line_waits_for(const struct trace_event *ev);
/* It is in the file whose end that is. */
void line__count(const struct line *l, struct trace_end *end);
/* So are those that were counted in lines. */
void line__count_all(const struct trace_end *lines, struct trace_end *end);

/* With the times that have come. Adds none. */
typedef void (*pending_lines_fn)(void *ctx, const struct line *l);

struct pending_lines;

/* max: bytes of all; base_ns: what ts counts from. NULL: no memory. */
struct pending_lines *pending_lines__new(size_t max, uint64_t base_ns, pending_lines_fn fn,
					 void *ctx);
/* id: 0, or of the call that waits, whose times belong at gpu_at (sink.h) of the text. Without room
 * the oldest go. false: there is no memory, or it is longer than all may be: none is left, the
 * caller has to write it. */
bool pending_lines__add(struct pending_lines *q, const struct line *l, uint64_t id, size_t gpu_at,
			uint64_t now_ns);
/* EVENT_GPU; false: no line of its call is here. */
bool pending_lines__executed(struct pending_lines *q, const struct trace_event *ev);
/* Those that have waited long enough go. */
void pending_lines__tick(struct pending_lines *q, uint64_t now_ns);
/* All go. */
void pending_lines__release(struct pending_lines *q);
/* Those that are there are gone. NULL is fine. */
void pending_lines__free(struct pending_lines *q);

#endif /* SINK_DELIVERY_PENDING_LINES_H */
