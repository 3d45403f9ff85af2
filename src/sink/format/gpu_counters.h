/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of --gpu-stats and --gpu-metrics samples, by device, process and network port: their
 * names, made once. */
#ifndef SINK_FORMAT_GPU_COUNTERS_H
#define SINK_FORMAT_GPU_COUNTERS_H

#include "chrome_proc.h"

struct gpu_counters;

struct gpu_counters *gpu_counters__new(void);
void gpu_counters__free(struct gpu_counters *g);
/* Calls fn for each drawn value of an EVENT_GPU_STATS, EVENT_GPU_METRICS or EVENT_NETWORK. The
 * counters live as long as g. */
void gpu_counters__event(struct gpu_counters *g, const struct trace_event *ev, chrome_counter_fn fn,
			 void *ctx);

#endif /* SINK_FORMAT_GPU_COUNTERS_H */
