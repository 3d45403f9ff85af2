/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The last sample of each GPU (gpu_stats.interval), and what targets have of them. */
#ifndef METRICS_GPU_SAMPLES_H
#define METRICS_GPU_SAMPLES_H

#include "ct_gpu.h"
#include "model/event.h"

/* More, MIG devices too, are not told of. */
#define GPU_SAMPLES_MAX 64
/* Of one target. */
#define TARGET_GPUS_MAX 16

struct gpu_sample {
	uint64_t gpu_id, gpu_instance, compute_instance;		      /* UINT64_MAX: none */
	char gpu[24], uuid[64], pci[32], device[32], model[96], instance[24]; /* labels */
	uint64_t known, values[CT_GPU_VALUE_CNT];
	uint64_t last_ns; /* 0: none yet */
	uint64_t cnt, cost_ns, throttled_ns;
};

struct gpu_samples {
	struct gpu_sample of[GPU_SAMPLES_MAX];
	unsigned cnt;
};

/* Its processes' share of one GPU: of the last sample, and of the one that is being read. */
struct target_gpu {
	unsigned gpu; /* of gpu_samples.of */
	uint64_t memory, util, next_memory, next_util;
};

/* The GPU that an EVENT_GPU_STATS is of, which takes it; NULL: of none, or of one too many. */
struct gpu_sample *gpu_samples__event(struct gpu_samples *s, const struct trace_event *ev);
/* Is its last sample still of now? */
bool gpu_sample_is_fresh(const struct gpu_sample *g, uint64_t now);

#endif /* METRICS_GPU_SAMPLES_H */
