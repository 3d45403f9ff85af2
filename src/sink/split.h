/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An output in several files (--max-file). An event that finds no room in the file at hand, with
 * the closing lines, is taken back: the file gets its end, another one its beginning, and the event
 * is written there. So every file is whole, and none is too large, but one that a single event
 * makes so.
 */
#ifndef SINK_SPLIT_H
#define SINK_SPLIT_H

#include "sink.h"

void split__event(struct sink *s, const struct trace_event *ev);
/* The last file's end: what it says of events is of that file, what is left of the sums comes on
 * top. */
void split__end(struct sink *s, const struct trace_end *end);
/* NULL is fine. */
void split__free(struct split *sp);

#endif /* SINK_SPLIT_H */
