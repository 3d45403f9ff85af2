/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Computes when a device was busy. Executions arrive roughly in the order of their start: those of
 * a stream are in order, but CUPTI delivers them one buffer at a time. GPU_KEPT of them are kept
 * and sorted before they are counted.
 */
#ifndef MODEL_GPU_BUSY_H
#define MODEL_GPU_BUSY_H

#include "devices.h"

/* Executions kept per device: half a second at 500,000 per second. */
#define GPU_KEPT (1u << 18)
/* Number of time bins, whose width grows with the trace: 2 MiB for each part that has bins. */
#define GPU_BINS (1u << 18)

/* Kinds of activity of a device: any kernel, a copy, a kernel of NCCL, anything except NCCL's
 * kernels, anything. */
enum gpu_part { GPU_COMPUTE, GPU_COPYING, GPU_COMMUNICATING, GPU_ELSE, GPU_ANY, GPU_PART_CNT };

/* The kind of an execution. */
enum gpu_work { GPU_KERNEL, GPU_COPY, GPU_COLLECTIVE };

/* Owner of an execution: two numbers that the caller defines. */
struct gpu_owner {
	uint32_t node, slice;
};

struct gpu_span {
	uint64_t start, end;
	struct gpu_owner owner;
	uint8_t work; /* enum gpu_work */
};

/* Called in the order of start. idle_ns: how long the device was idle before this execution;
 * busy_ns: the part of its time that no earlier one covers. */
typedef void gpu_settled_fn(void *ctx, struct gpu_owner owner, uint64_t idle_ns, uint64_t busy_ns);

/* Time covered so far, in order. */
struct gpu_union {
	uint64_t end, total;
	uint64_t *bins; /* bins[i]: covered time in the bin_ns from origin + i * bin_ns; or NULL */
};

/* Gaps between executions, over all parts. */
#define GPU_GAP_CLASSES 5
extern const uint64_t gpu_gap_below[GPU_GAP_CLASSES]; /* ns; the last is UINT64_MAX */
struct gpu_gap {
	uint64_t cnt, ns;
};

struct gpu_busy {
	struct gpu_span *kept;
	unsigned cnt;
	struct gpu_union parts[GPU_PART_CNT];
	uint64_t first, last; /* start of the first, end of the last */
	uint64_t settled;     /* executions that begin before this time have been counted */
	uint64_t late_cnt;    /* executions that arrived later: only uncovered time counts */
	struct gpu_gap gaps[GPU_GAP_CLASSES];
	uint64_t longest_gap, longest_gap_at;
	uint64_t origin, bin_ns;
	bool has_copies;
	gpu_settled_fn *settled_fn; /* or NULL */
	void *ctx;
};

/* Returns false if out of memory. */
bool gpu_busy__init(struct gpu_busy *b);
void gpu_busy__add_of(struct gpu_busy *b, uint64_t start, uint64_t end, enum gpu_work work,
		      struct gpu_owner owner);
static inline void gpu_busy__add(struct gpu_busy *b, uint64_t start, uint64_t end,
				 enum gpu_work work)
{
	gpu_busy__add_of(b, start, end, work, (struct gpu_owner){0});
}
/* No more executions follow. Makes the totals final. */
void gpu_busy__finish(struct gpu_busy *b);
/* Time in which the device both computed and copied. */
uint64_t gpu_busy__overlap(const struct gpu_busy *b);
/* Time in which the device only communicated. */
uint64_t gpu_busy__alone(const struct gpu_busy *b);
/* Approximate busy time between from and to: bins that are cut count proportionally. part: all but
 * GPU_COPYING. */
double gpu_busy__between(const struct gpu_busy *b, enum gpu_part part, uint64_t from, uint64_t to);
void gpu_busy__free(struct gpu_busy *b);

/* The devices that executed something. A device is a GPU of the machine, identified by its UUID.
 * Without UUID, it is everything that processes call by the same number. */
#define GPU_DEVICES_MAX	  64
#define GPU_PROCESSES_MAX 16
struct gpu_device {
	uint32_t number;       /* in the first process that used it */
	uint32_t clock, trace; /* another machine has other devices */
	struct device is;      /* a copy; is_known is false if the UUID is unknown */
	uint32_t pids[GPU_PROCESSES_MAX];
	unsigned pid_cnt; /* GPU_PROCESSES_MAX + 1: further processes use it too */
	/* Its UUID is unknown, and other processes have a device of that number too. With
	 * CUDA_VISIBLE_DEVICES, or in containers, they may be several GPUs. */
	bool is_shared;
	uint64_t executions;
	struct gpu_busy busy;
};
#define GPU_SHARED_WORDS                                                                           \
	"Several processes have a GPU of the same number, and its UUID is unknown. If each "       \
	"sees its own GPUs (CUDA_VISIBLE_DEVICES, containers), one row has several GPUs: trace "   \
	"each process separately."
struct gpu_devices {
	struct gpu_device *of[GPU_DEVICES_MAX];
	unsigned cnt;
	gpu_settled_fn *settled_fn; /* for devices added later; or NULL */
	void *ctx;
};
struct trace_event;
/* Returns the device of an EVENT_GPU. NULL: too many devices, or out of memory. */
struct gpu_device *gpu_devices__get(struct gpu_devices *ds, const struct trace_event *ev);
/* Returns whether an EVENT_GPU is a kernel of NCCL. */
bool gpu_is_collective(const struct trace_event *ev);
/* Adds an EVENT_GPU. Returns false if there are too many devices, or out of memory. */
bool gpu_devices__event(struct gpu_devices *ds, const struct trace_event *ev);
void gpu_devices__finish(struct gpu_devices *ds);
/* Returns whether the process uses it; true if unknown. */
bool gpu_device__is_of(const struct gpu_device *d, uint32_t pid);
/* Returns whether certainly no other process uses it. */
bool gpu_device__is_alone(const struct gpu_device *d);
void gpu_devices__free(struct gpu_devices *ds);
/* Time from the first start to the last end; idle: the part without any execution. */
uint64_t gpu_device__span(const struct gpu_device *d);
uint64_t gpu_device__idle(const struct gpu_device *d);

#endif /* MODEL_GPU_BUSY_H */
