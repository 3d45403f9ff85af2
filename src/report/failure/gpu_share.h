/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who uses the GPU while a call waits: by NVML's samples (--gpu-stats), and by the log of context
 * switches (--gpu-ctxsw). For reports, and for processes that are watched live.
 */
#ifndef REPORT_FAILURE_GPU_SHARE_H
#define REPORT_FAILURE_GPU_SHARE_H

#include "model/event.h"

/* A process's name of 15 bytes, each of which may have become another character. */
#define GPU_COMM_SZ 48

/* A process on the GPU, by NVML. */
struct gpu_user {
	uint32_t pid;
	char comm[GPU_COMM_SZ]; /* "": unknown */
	uint64_t bytes;
	struct opt_u64 busy; /* as in gpu_load */
};
#define GPU_USERS_MAX 64
/* A sample: its processes come before the device. */
struct gpu_users {
	struct gpu_user of[GPU_USERS_MAX];
	unsigned cnt;
};
/* Shares of a sample's time in which a kernel ran, in thousandths of a percent. */
struct gpu_load {
	struct opt_u64 all, own; /* of any process, of the process that waits */
};

/* A time in which a process had a GPU. */
struct gpu_slice {
	uint64_t start_ns, end_ns;
	uint32_t pid, minor;
	char comm[GPU_COMM_SZ]; /* "": unknown */
};
#define SLICES_MAX	  4096
#define GPU_RESIDENTS_MAX 16

/* Who had the GPU during a wait: times in nanoseconds. */
struct gpu_residents {
	uint64_t of_ns; /* the wait, as far as slices are known; 0: unknown */
	uint64_t own_ns, others_ns;
	struct {
		uint32_t pid;
		char comm[GPU_COMM_SZ];
		uint64_t ns;
	} of[GPU_RESIDENTS_MAX]; /* others */
	unsigned cnt, most;	 /* most: the one with most time */
};

struct gpu_share {
	struct gpu_users users, next_users; /* of the latest sample, of the next */
	struct opt_u64 busy;		    /* as in gpu_load, at sample_ns */
	uint64_t sample_ns;
	uint64_t memory_used, memory_total; /* total 0: unknown; UINT64_MAX: several GPUs */
	struct gpu_slice *slices;	    /* ring of SLICES_MAX, from the first one on */
	uint64_t slice_cnt;
};

/* Takes samples and slices; other events change nothing. */
void gpu_share__event(struct gpu_share *g, const struct trace_event *ev);
void gpu_share__free(struct gpu_share *g);
/* The latest sample, if it is not older than since_ns. With several GPUs it is not known which one
 * the process uses. */
struct gpu_load gpu_share_load(const struct gpu_share *g, uint32_t pid, uint64_t since_ns);
void gpu_share_residents(const struct gpu_share *g, uint32_t pid, uint64_t from_ns, uint64_t end_ns,
			 struct gpu_residents *r);
/* Sentences, each behind ". "; "" if nothing is known. */
void gpu_share_text(const struct gpu_load *x, const struct gpu_residents *r, char *buf,
		    size_t size);

#endif /* REPORT_FAILURE_GPU_SHARE_H */
