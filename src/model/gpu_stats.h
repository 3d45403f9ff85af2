/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of what NVML says of GPUs (--gpu-stats). */
#ifndef MODEL_GPU_STATS_H
#define MODEL_GPU_STATS_H

#include "event.h"

#include "ct_gpu.h"

/* What an event's texts lie in. */
struct gpu_stats_texts {
	char name[CT_GPU_NAME_SZ + 1], uuid[CT_GPU_UUID_SZ + 1], pci[CT_GPU_PCI_SZ + 1];
	char throttle[192];
};

/* -EINVAL: the record makes no sense. */
int gpu_stats__event(const struct ct_gpu *rec, struct gpu_stats_texts *texts,
		     struct trace_event *ev);
/* Do the clocks stay low for one of these reasons? That a GPU is idle, or was set so, is none. */
bool gpu_stats_throttles(uint64_t clock_reasons);

#endif /* MODEL_GPU_STATS_H */
