/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of executions: the state of gpu.c and gpu_print.c. */
#ifndef REPORT_GPU_GPU_PRIV_H
#define REPORT_GPU_GPU_PRIV_H

#include "gpu.h"

#include "model/gpu_busy.h"
#include "report/collect.h"

#define GPU_DIR_CNT (COPY_DIR_PEER + 1)

/* Executions of one kind. */
struct gpu_sum {
	const char *name;
	uint64_t cnt, ns, min, max, bytes;
	uint64_t queue_ns, queue_cnt,
		queue_max; /* from the start of their calls, if they have one */
};

struct gpu {
	struct report *r;
	struct gpu_devices devices;
	struct keys keys;
	struct gpu_sum *kernels;
	unsigned cap;
	struct gpu_sum copies[GPU_DIR_CNT], memset, graphs, all;
	uint64_t lost_cnt; /* executions rejected by the device limit, or for lack of memory */
	struct loghist queue;
	struct gpu_result res;
	const struct gpu_sum **sorted; /* longest total time first */
	unsigned sorted_cnt;
};

extern const struct section_table gpu_table;
void gpu_print(const void *a, const struct term *term);

#endif /* REPORT_GPU_GPU_PRIV_H */
