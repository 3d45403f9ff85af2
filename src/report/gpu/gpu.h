/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What other analyses ask of the GPU's times (--gpu-time), from their finish on. */
#ifndef REPORT_GPU_GPU_H
#define REPORT_GPU_GPU_H

#include "report/report.h"

/* What the GPU was busy for so much of the time is bound by it. */
#define GPU_BOUND_SHARE 0.9
/* A piece at an iteration's end may be in two of them. */
#define ITER_PIECES 10

struct gpu_result {
	uint64_t executions; /* 0: there are no times */
	unsigned device_cnt;
	/* Of all devices together. */
	uint64_t span_ns, busy_ns, compute_ns, copy_ns, overlap_ns;
	bool shared; /* a device has a number that several processes use */
	/* With a kernel of NCCL, and with nothing else; of devices that are not shared. */
	uint64_t comm_ns, alone_ns;
	uint64_t first_ns; /* start of the first execution */
	uint64_t longest_gap_ns, longest_gap_at_ns;
	uint64_t queue_p50_ns, queue_p99_ns; /* from a call's start to the GPU's */
	/* Iterations that are no warm-up, in which the GPU was busy for nine tenths of the time;
	 * and others. Of the median one, the share that it was busy, communicated, did only that.
	 */
	uint64_t gpu_bound, host_bound;
	double iter_busy_median, iter_comm_median, iter_alone_median;
	/* Not 0: none of that is known, for the devices' time is kept in pieces of this length, and
	 * an iteration has fewer than ITER_PIECES. */
	uint64_t iter_coarse_ns;
};
void gpu_result(const struct report *r, struct gpu_result *res);

/* What devices did from one moment to another: those of process pid, or with 0 all. The parts add
 * up to the whole, which counts each device that executed something meanwhile. */
struct gpu_period {
	uint64_t whole_ns; /* 0: there are no times */
	uint64_t compute_ns, copy_alone_ns, comm_alone_ns, idle_ns;
};
void gpu_period(const struct report *r, uint32_t pid, uint64_t from_ns, uint64_t to_ns,
		struct gpu_period *res);

/* Of the devices that the process has for itself. */
struct gpu_of_process {
	uint64_t busy_ns, idle_ns, comm_ns, alone_ns;
};
/* false: it has none. */
bool gpu_of_process(const struct report *r, uint32_t pid, struct gpu_of_process *res);

#endif /* REPORT_GPU_GPU_H */
