/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of memory held by PyTorch's allocator (--torch), by device: their names, made once. */
#ifndef SINK_FORMAT_ALLOCATOR_COUNTERS_H
#define SINK_FORMAT_ALLOCATOR_COUNTERS_H

#include "chrome_proc.h"

struct allocator_counters;

struct allocator_counters *allocator_counters__new(void);
void allocator_counters__free(struct allocator_counters *a);
/* Calls fn for the values of an EVENT_ALLOCATOR. The counters live as long as a. */
void allocator_counters__event(struct allocator_counters *a, const struct trace_event *ev,
			       chrome_counter_fn fn, void *ctx);

#endif /* SINK_FORMAT_ALLOCATOR_COUNTERS_H */
