/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a device was busy, from executions that come roughly in the order of their start: those of a
 * stream are in order, but CUPTI delivers them by the buffer. So many are kept until it is known
 * what lies between them.
 */
#ifndef MODEL_GPU_BUSY_H
#define MODEL_GPU_BUSY_H

#include "devices.h"

/* Kept, of one device: half a second at 500,000 a second. */
#define GPU_KEPT (1u << 18)
/* Pieces of the time, which grow with the trace: 2 MiB for each part that has them. */
#define GPU_BINS (1u << 18)

/* What a device was busy with at a moment: any kernel, a copy, a kernel of NCCL, anything but that,
 * anything. */
enum gpu_part { GPU_COMPUTE, GPU_COPYING, GPU_COMMUNICATING, GPU_ELSE, GPU_ANY, GPU_PART_CNT };

/* What an execution is. */
enum gpu_work { GPU_KERNEL, GPU_COPY, GPU_COLLECTIVE };

/* For whom an execution is: two numbers that whoever asks knows the meaning of. */
struct gpu_owner {
	uint32_t node, slice;
};

struct gpu_span {
	uint64_t start, end;
	struct gpu_owner owner;
	uint8_t work; /* enum gpu_work */
};

/* In the order of their start: how long the device had had nothing to do until this one began, and
 * how much of its time none before it had covered. */
typedef void gpu_settled_fn(void *ctx, struct gpu_owner owner, uint64_t idle_ns, uint64_t busy_ns);

/* Time covered so far, in order. */
struct gpu_union {
	uint64_t end, total;
	uint64_t *bins; /* bins[i]: in the bin_ns from origin + i * bin_ns on; or NULL */
};

/* Times between executions, of all parts together. */
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
	uint64_t settled;     /* what begins before it has its place */
	uint64_t late_cnt; /* executions that came after that: only what nothing else covers counts
			    */
	struct gpu_gap gaps[GPU_GAP_CLASSES];
	uint64_t longest_gap, longest_gap_at;
	uint64_t origin, bin_ns;
	gpu_settled_fn *settled_fn; /* or NULL */
	void *ctx;
};

/* false: no memory. */
bool gpu_busy__init(struct gpu_busy *b);
void gpu_busy__add_of(struct gpu_busy *b, uint64_t start, uint64_t end, enum gpu_work work,
		      struct gpu_owner owner);
static inline void gpu_busy__add(struct gpu_busy *b, uint64_t start, uint64_t end,
				 enum gpu_work work)
{
	gpu_busy__add_of(b, start, end, work, (struct gpu_owner){0});
}
/* No more comes: the totals are right. */
void gpu_busy__finish(struct gpu_busy *b);
/* Time that both computed and copied. */
uint64_t gpu_busy__overlap(const struct gpu_busy *b);
/* Time that it did nothing but communicate. */
uint64_t gpu_busy__alone(const struct gpu_busy *b);
/* Of the time from from to to, about: bins that are cut count in part. part: GPU_COMMUNICATING,
 * GPU_ELSE or GPU_ANY. */
double gpu_busy__between(const struct gpu_busy *b, enum gpu_part part, uint64_t from, uint64_t to);
void gpu_busy__free(struct gpu_busy *b);

/* Each device that executed something: a GPU of the machine, by its UUID, or where that is not
 * known, what processes call by the same number. */
#define GPU_DEVICES_MAX	  64
#define GPU_PROCESSES_MAX 16
struct gpu_device {
	uint32_t number;       /* of the first process that used it */
	uint32_t clock, trace; /* another machine has other devices */
	struct device is;      /* a copy; is_known is false where the UUID is not */
	uint32_t pids[GPU_PROCESSES_MAX];
	unsigned pid_cnt; /* one more than there is room for: others use it, too */
	/* Its UUID is not known, and other processes have a device of that number, too: with
	 * CUDA_VISIBLE_DEVICES, or in containers, they may be several GPUs. */
	bool is_shared;
	uint64_t executions;
	struct gpu_busy busy;
};
#define GPU_SHARED_WORDS                                                                           \
	"Several processes have a GPU of the same number, and its UUID is not known. Where each "  \
	"sees GPUs of its own (CUDA_VISIBLE_DEVICES, containers), they are several GPUs in one "   \
	"row: trace each process by itself."
struct gpu_devices {
	struct gpu_device *of[GPU_DEVICES_MAX];
	unsigned cnt;
	gpu_settled_fn *settled_fn; /* of devices that are to come; or NULL */
	void *ctx;
};
struct trace_event;
/* Of EVENT_GPU: the device that its process calls by that number. NULL: there are too many, or
 * there is no memory. */
struct gpu_device *gpu_devices__get(struct gpu_devices *ds, const struct trace_event *ev);
/* Of EVENT_GPU: a kernel of NCCL. */
bool gpu_is_collective(const struct trace_event *ev);
/* From EVENT_GPU. false: there are too many devices, or there is no memory. */
bool gpu_devices__event(struct gpu_devices *ds, const struct trace_event *ev);
void gpu_devices__finish(struct gpu_devices *ds);
/* Does the process use it? Also where that is not known. */
bool gpu_device__is_of(const struct gpu_device *d, uint32_t pid);
/* Does it for certain no other? */
bool gpu_device__is_alone(const struct gpu_device *d);
void gpu_devices__free(struct gpu_devices *ds);
/* From the first start to the last end; of that, without anything. */
uint64_t gpu_device__span(const struct gpu_device *d);
uint64_t gpu_device__idle(const struct gpu_device *d);

#endif /* MODEL_GPU_BUSY_H */
