/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events from NVML's data on GPUs and from the counters of network ports (--gpu-stats), and from
 * hardware counters of GPUs (--gpu-metrics). */
#ifndef MODEL_GPU_STATS_H
#define MODEL_GPU_STATS_H

#include "event.h"

#include "ct_gpu.h"

/* Storage for the texts of an event. */
struct gpu_stats_texts {
	char name[CT_GPU_NAME_SZ + 1], uuid[CT_GPU_UUID_SZ + 1], pci[CT_GPU_PCI_SZ + 1];
	char throttle[192];
};

/* Returns 0, or -EINVAL if the record is invalid. */
int gpu_stats__event(const struct ct_gpu *rec, struct gpu_stats_texts *texts,
		     struct trace_event *ev);

#endif /* MODEL_GPU_STATS_H */
