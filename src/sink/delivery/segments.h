/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An output in several files (--max-file). An event that does not fit into the current file, with
 * the closing lines, is taken back. Then the file gets its end, another one its beginning, and the
 * event is written there. So every file is complete, and none is too large except by a single large
 * event.
 */
#ifndef SINK_DELIVERY_SEGMENTS_H
#define SINK_DELIVERY_SEGMENTS_H

#include "sink/sink.h"

struct line;

/* Lines wait for GPU executions; false: no memory. */
bool segments__wait(struct sink *s);
void segments__event(struct sink *s, const struct trace_event *ev);
/* Write at once: an event, or the line of one that has waited. stack: NULL, or the definition of
 * its stack. */
void segments__now(struct sink *s, const struct trace_event *ev);
void segments__line(struct sink *s, const struct line *l, const struct line *stack);
/* Writes lines that have waited long enough. */
void segments__tick(struct sink *s);
/* Writes all pending lines. */
void split__release(struct sink *s);
/* The definition of the event's stack, as written before the first event with that stack. */
struct trace_event stack_definition(const struct trace_event *ev);
/* Ends the last file: event counts are of that file, the remaining sums are added. */
void segments__end(struct sink *s, const struct trace_end *end);
/* sp may be NULL. */
void segments__free(struct segments *sp);

#endif /* SINK_DELIVERY_SEGMENTS_H */
