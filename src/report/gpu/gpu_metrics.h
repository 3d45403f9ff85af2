/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hardware counters of GPUs (--gpu-metrics), and the kernels that they belong to. A sample is of
 * the whole GPU. It counts for a kernel if, by --gpu-time, executions of that kernel fill most of
 * it, and others nearly nothing.
 *
 * Samples and executions arrive in different order. They are kept until there are many; then the
 * older half is attributed.
 */
#ifndef REPORT_GPU_GPU_METRICS_H
#define REPORT_GPU_GPU_METRICS_H

#include "report/collect.h"
#include "report/report.h"

#include "ct_gpu.h"

#define PM_GPUS	      64
#define PM_SAMPLES    (1u << 15) /* 3 s at 10 kHz */
#define PM_EXECUTIONS (1u << 17)
#define PM_KERNELS    (1u << 16)
/* Shares of a sample that its kernel must fill, and that others may. */
#define PM_OWN	  0.8
#define PM_OTHERS 0.2
/* A sample in which the GPU was active for less than this, in thousandths of a percent, is idle. */
#define PM_IDLE 1000
/* Kernels of which fewer samples are known are not listed. */
#define PM_FEW 3

struct pm_kept {
	uint64_t start, end;
	double values[CT_PM_VALUE_CNT];
	uint32_t known;
	/* The kernel that fills more than half of it, if one does. */
	uint32_t kernel;
	double votes, own_ns, others_ns;
};

struct pm_execution {
	uint64_t start, end;
	uint32_t kernel;
};

/* Sums of a value: weights are times. */
struct pm_value {
	double sum, ns;
	double max;
	double busy_sum, busy_ns; /* of samples that are not idle; ns: active time */
};

struct pm_kernel {
	const char *op;	  /* kernel, graph, copy, memset */
	const char *name; /* of a kernel; NULL: unknown */
	unsigned gpu;
	uint64_t executions, gpu_ns;
	uint64_t samples, sampled_ns;
	double own_ns; /* in these samples */
	struct pm_value values[CT_PM_VALUE_CNT];
};

struct pm_gpu {
	uint64_t number;
	unsigned trace;
	char uuid[CT_GPU_UUID_SZ], model[96];
	uint64_t interval_ns;
	uint64_t samples, sampled_ns, mostly_one; /* mostly_one: belong to a kernel */
	struct pm_value values[CT_PM_VALUE_CNT];
	struct pm_kept *kept;
	struct pm_execution *executions;
	unsigned kept_cnt, kept_cap, execution_cnt, execution_cap;
};

struct gpu_metrics {
	struct report *r;
	struct pm_gpu *gpus[PM_GPUS];
	unsigned gpu_cnt;
	struct pm_kernel *kernels, **sorted;
	unsigned kernel_cnt, kernel_cap, sorted_cnt;
	struct keys keys;
	uint64_t rejected_cnt;
};

extern const struct section_table gpu_metrics_table;
void gpu_metrics_print(const void *a, const struct term *term);

#endif /* REPORT_GPU_GPU_METRICS_H */
