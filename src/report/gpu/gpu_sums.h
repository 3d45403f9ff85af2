/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Samples of --gpu-stats, summed by device and by process; for summaries and reports. */
#ifndef REPORT_GPU_GPU_SUMS_H
#define REPORT_GPU_GPU_SUMS_H

#include "model/event.h"
#include "text/json.h"
#include "text/term.h"

struct gpu_sums;

/* Returns NULL if out of memory. */
struct gpu_sums *gpu_sums__new(void);
void gpu_sums__free(struct gpu_sums *g);
/* Adds an EVENT_GPU_STATS event. Keeps no pointers into it. */
void gpu_sums__event(struct gpu_sums *g, const struct trace_event *ev);
/* Prints nothing without samples. */
void gpu_sums__print(const struct gpu_sums *g, const struct term *term);
/* Writes an object of that name; nothing without samples. */
void gpu_sums__json(const struct gpu_sums *g, struct json *j, const char *name);

/* Xids of device i, from 0 on: the number that NVML counted, and the last code (0: none). Returns
 * false past the last device. */
struct gpu_xids {
	uint64_t gpu, cnt, last, first_ns;
};
bool gpu_sums_xids(const struct gpu_sums *g, unsigned i, struct gpu_xids *res);

#endif /* REPORT_GPU_GPU_SUMS_H */
