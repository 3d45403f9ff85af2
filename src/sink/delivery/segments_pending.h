/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines that wait for GPU executions (--gpu-time), of an output in several files. A line's file is
 * known only when it is released. That file may lack the line's stack, so its definition waits,
 * too.
 */
#ifndef SINK_DELIVERY_SEGMENTS_PENDING_H
#define SINK_DELIVERY_SEGMENTS_PENDING_H

#include "sink/sink.h"

struct segments_pending;

/* NULL: no memory. */
struct segments_pending *segments_pending__new(struct sink *s);
void segments_pending__event(struct segments_pending *w, const struct trace_event *ev);
void segments_pending__tick(struct segments_pending *w);
/* Releases all. */
void segments_pending__release(struct segments_pending *w);
/* w may be NULL. */
void segments_pending__free(struct segments_pending *w);

#endif /* SINK_DELIVERY_SEGMENTS_PENDING_H */
