/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GPU times (--gpu-time) for other analyses, which may use them when they finish. */
#ifndef REPORT_GPU_GPU_H
#define REPORT_GPU_GPU_H

#include "model/gpu_busy.h"
#include "report/report.h"

/* An iteration is GPU-bound if the GPU is busy for this share of it. */
#define GPU_BOUND_SHARE 0.9
/* Minimum pieces per iteration: a piece at its end may belong to two iterations. */
#define ITER_PIECES 10

struct gpu_result {
	uint64_t executions; /* 0: there are no times */
	unsigned device_cnt;
	/* Sums over these devices. */
	uint64_t span_ns, busy_ns, compute_ns, copy_ns, overlap_ns;
	bool shared; /* several processes use one device number */
	/* Time with NCCL kernels, and with nothing else; only devices that are not shared. */
	uint64_t comm_ns, alone_ns;
	uint64_t first_ns; /* start of the first execution */
	uint64_t longest_gap_ns;
	uint64_t queue_p50_ns, queue_p99_ns; /* from the start of a call to the start on the GPU */
	/* Iterations after the warm-up in which the GPU was busy for nine tenths of the time, and
	 * the others. Then median shares of an iteration: busy, communicating, only
	 * communicating. */
	uint64_t gpu_bound, host_bound;
	double iter_busy_median, iter_comm_median, iter_alone_median;
	/* If not 0, these are unknown: device times are kept in pieces of this length, and an
	 * iteration has fewer than ITER_PIECES. */
	uint64_t iter_coarse_ns;
};
void gpu_result(const struct report *r, struct gpu_result *res);
/* The same, but with sums over the devices that process pid uses; 0: all. */
void gpu_result_of(const struct report *r, uint32_t pid, struct gpu_result *res);

/* Device time from from_ns to to_ns, for process pid or for all (pid 0). The parts add up to
 * whole_ns, which counts each device that executed something in that time. */
struct gpu_period {
	uint64_t whole_ns; /* 0: there are no times */
	uint64_t compute_ns, copy_alone_ns, comm_alone_ns, idle_ns;
};
void gpu_period(const struct report *r, uint32_t pid, uint64_t from_ns, uint64_t to_ns,
		struct gpu_period *res);
/* The same of devices that are kept elsewhere, after gpu_devices__finish(). */
void gpu_period_of(const struct gpu_devices *devices, uint32_t pid, uint64_t from_ns,
		   uint64_t to_ns, struct gpu_period *res);

/* Sums over devices that only this process uses. */
struct gpu_of_process {
	uint64_t busy_ns, idle_ns, comm_ns, alone_ns;
};
/* Returns false if there are none. */
bool gpu_of_process(const struct report *r, uint32_t pid, struct gpu_of_process *res);

#endif /* REPORT_GPU_GPU_H */
