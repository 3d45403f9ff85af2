/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What --gpu-stats has sampled, summed up by device and by process: for summaries and reports. */
#ifndef REPORT_GPU_GPU_SUMS_H
#define REPORT_GPU_GPU_SUMS_H

#include "model/event.h"
#include "text/json.h"
#include "text/term.h"

struct gpu_sums;

/* NULL: no memory. */
struct gpu_sums *gpu_sums__new(void);
void gpu_sums__free(struct gpu_sums *g);
/* Of EVENT_GPU_STATS. Nothing of it is kept but copies. */
void gpu_sums__event(struct gpu_sums *g, const struct trace_event *ev);
/* Nothing when there was none. */
void gpu_sums__print(const struct gpu_sums *g, const struct term *term);
/* An object of that name; nothing when there was none. */
void gpu_sums__json(const struct gpu_sums *g, struct json *j, const char *name);

/* The errors of device i, from 0 on: how many NVML saw, and the last one's number; 0: none. false:
 * there are no more devices. */
struct gpu_xids {
	uint64_t gpu, cnt, last, first_ns;
};
bool gpu_sums_xids(const struct gpu_sums *g, unsigned i, struct gpu_xids *res);

#endif /* REPORT_GPU_GPU_SUMS_H */
