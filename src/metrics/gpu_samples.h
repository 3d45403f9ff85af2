/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The last sample of each GPU (gpu_stats.interval), and the part of each target in it; sums of
 * hardware counters. */
#ifndef METRICS_GPU_SAMPLES_H
#define METRICS_GPU_SAMPLES_H

#include "ct_gpu.h"
#include "model/event.h"

/* Limit of devices, including MIG devices; further ones have no metrics. */
#define GPU_SAMPLES_MAX 64
/* Limit of one target. */
#define TARGET_GPUS_MAX 16

struct gpu_sample {
	uint64_t gpu_id, gpu_instance, compute_instance;		      /* UINT64_MAX: none */
	char gpu[24], uuid[64], pci[32], device[32], model[96], instance[24]; /* labels */
	uint64_t known, values[CT_GPU_VALUE_CNT];
	uint64_t last_ns; /* 0: no sample yet */
	uint64_t cnt, cost_ns, throttled_ns;
	/* Since the sample before: energy, 0 if unknown; and whether any work ran. */
	uint64_t rise_mj, period_ns;
	bool is_used;
	double idle_j, idle_s; /* in all samples without work: the idle power */
	double idle_joules;    /* what no target has */
};

/* Sums of a GPU's hardware counters (gpu_metrics.rate). */
struct gpu_hardware {
	uint64_t gpu_id;
	char gpu[24], uuid[64]; /* labels */
	uint64_t known;
	double sums[CT_PM_VALUE_CNT]; /* of each value times the time of its samples, in seconds */
	uint64_t sampled_ns, cost_ns;
};

struct gpu_samples {
	struct gpu_sample of[GPU_SAMPLES_MAX];
	unsigned cnt;
	struct gpu_hardware hardware[GPU_SAMPLES_MAX];
	unsigned hardware_cnt;
};

/* One GPU's share used by the target's processes: in the last sample, and in the one that is being
 * read. */
struct target_gpu {
	unsigned gpu; /* index in gpu_samples.of */
	uint64_t memory, util, next_memory, next_util;
	double joules;
};

/* Stores an EVENT_GPU_STATS and returns its GPU; NULL: it has none, or the limit was reached. */
struct gpu_sample *gpu_samples__event(struct gpu_samples *s, const struct trace_event *ev);
/* Adds an EVENT_GPU_METRICS. */
void gpu_samples__hardware(struct gpu_samples *s, const struct trace_event *ev);
/* Returns whether its last sample is recent. */
bool gpu_sample_is_fresh(const struct gpu_sample *g, uint64_t now);

#endif /* METRICS_GPU_SAMPLES_H */
