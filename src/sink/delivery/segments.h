/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An output in several files (--max-file). An event that finds no room in the file at hand, with
 * the closing lines, is taken back: the file gets its end, another one its beginning, and the event
 * is written there. So every file is whole, and none is too large, but one that a single event
 * makes so.
 */
#ifndef SINK_DELIVERY_SEGMENTS_H
#define SINK_DELIVERY_SEGMENTS_H

#include "sink/sink.h"

struct line;

/* Lines wait for what GPUs execute; false: no memory. */
bool segments__wait(struct sink *s);
void segments__event(struct sink *s, const struct trace_event *ev);
/* The same without waiting; and the line of one that has waited. stack: NULL, or the definition of
 * the stack that it has. */
void segments__now(struct sink *s, const struct trace_event *ev);
void segments__line(struct sink *s, const struct line *l, const struct line *stack);
/* Those that have waited long enough go. */
void segments__tick(struct sink *s);
/* All go. */
void split__release(struct sink *s);
/* Of the event's stack, as a trace has it before the first event with that. */
struct trace_event stack_definition(const struct trace_event *ev);
/* The last file's end: what it says of events is of that file, what is left of the sums comes on
 * top. */
void segments__end(struct sink *s, const struct trace_end *end);
/* NULL is fine. */
void segments__free(struct segments *sp);

#endif /* SINK_DELIVERY_SEGMENTS_H */
