/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines of an output in several files that wait for what GPUs execute (--gpu-time). Into which file
 * one goes is known when it goes; that may lack the line's stack, so its definition waits, too.
 */
#ifndef SINK_DELIVERY_SEGMENTS_PENDING_H
#define SINK_DELIVERY_SEGMENTS_PENDING_H

#include "sink/sink.h"

struct segments_pending;

/* NULL: no memory. */
struct segments_pending *segments_pending__new(struct sink *s);
void segments_pending__event(struct segments_pending *w, const struct trace_event *ev);
void segments_pending__tick(struct segments_pending *w);
/* All go. */
void segments_pending__release(struct segments_pending *w);
/* NULL is fine. */
void segments_pending__free(struct segments_pending *w);

#endif /* SINK_DELIVERY_SEGMENTS_PENDING_H */
