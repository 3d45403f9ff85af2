/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines of an output in several files that wait for what GPUs execute (--gpu-time). Into which file
 * one goes is known when it goes; that may lack the line's stack, so its definition waits, too.
 */
#ifndef SINK_SPLIT_WAIT_H
#define SINK_SPLIT_WAIT_H

#include "sink.h"

struct split_wait;

/* NULL: no memory. */
struct split_wait *split_wait__new(struct sink *s);
void split_wait__event(struct split_wait *w, const struct trace_event *ev);
void split_wait__tick(struct split_wait *w);
/* All go. */
void split_wait__let_go(struct split_wait *w);
/* NULL is fine. */
void split_wait__free(struct split_wait *w);

#endif /* SINK_SPLIT_WAIT_H */
