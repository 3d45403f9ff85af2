/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values of devices and processes: the state of gpu_sums.c and gpu_sums_print.c. */
#ifndef REPORT_GPU_GPU_SUMS_PRIV_H
#define REPORT_GPU_GPU_SUMS_PRIV_H

#include "gpu_sums.h"

#include "ct_gpu.h"

/* Limits; rejected rows are counted. */
#define GPU_STATS_DEVICES   256
#define GPU_STATS_PROCESSES 1024
#define GPU_STATS_MISSING   16

/* A value's samples. */
struct gpu_value {
	uint64_t cnt, max, last;
	double sum;
};

struct gpu_device {
	uint64_t gpu, gpu_instance, compute_instance; /* UINT64_MAX: none */
	unsigned trace;				      /* that sampled it */
	char uuid[64], model[96], pci[32];
	uint64_t memory_total; /* 0: not known */
	uint64_t sample_cnt, first_ns, last_ns;
	uint64_t throttled_ns;
	char throttle[192]; /* the last reasons */
	struct gpu_value values[CT_GPU_VALUE_CNT];
};

struct gpu_process {
	unsigned device; /* index in devices[] */
	uint32_t pid;
	char comm[16];
	struct gpu_value values[CT_GPU_VALUE_CNT];
};

struct gpu_sums {
	struct gpu_device *devices;
	struct gpu_process *processes;
	unsigned device_cnt, process_cnt, missing_cnt, device_cap, process_cap;
	uint64_t rejected_cnt; /* events rejected by the limits */
	char missing[GPU_STATS_MISSING][200];
};

extern const struct section_table gpu_stats_table;

#endif /* REPORT_GPU_GPU_SUMS_PRIV_H */
