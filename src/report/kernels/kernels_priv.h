/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernels and their queried attributes: the state of kernels*.c. */
#ifndef REPORT_KERNELS_KERNELS_PRIV_H
#define REPORT_KERNELS_KERNELS_PRIV_H

#include "report/collect.h"
#include "report/report.h"

/* All kernels of one name; without a name, the kernel of one handle in a process. */
struct kernel {
	const char *name;    /* NULL: not known */
	const char *mangled; /* of one of its launches; NULL: not known */
	uint64_t func;
	uint64_t cnt, node_cnt, error_cnt;
	uint64_t total_ns, max_ns, threads, blocks;
	uint32_t grid_min[3], grid_max[3], block[3], block_min[3], cluster[3];
	uint64_t grid_blocks_min, grid_blocks_max, block_threads, block_threads_min;
	uint32_t shared_mem, stream_cnt;
	uint64_t last_stream, last_func;
	bool has_config;
	bool is_mixed; /* its launches differ in threads of a block, shared memory or cluster */
	/* after the finish */
	bool has_registers, has_occupancy, has_waves;
	uint64_t registers;
	double occupancy;
	uint64_t resident; /* with has_occupancy: blocks of it that a multiprocessor holds */
	/* If all launches have one block size, for the largest grid. waves: its blocks, divided by
	 * those that the GPU holds at once. tail_share: share of block slots over all waves that
	 * the last wave leaves empty. */
	double waves, tail_share;
};

/* Results of a program's queries of a function, by handle and process. */
struct kernel_func {
	const char *name;
	uint32_t kernel;  /* row + 1; 0: not launched */
	bool is_measured; /* from executions (--gpu-time), by name */
	bool has_registers, has_shared, has_resident;
	uint64_t registers, shared_mem;
	/* from cuOccupancyMaxActiveBlocksPerMultiprocessor: blocks, for threads and dynamic
	 * memory */
	uint64_t resident, resident_threads, resident_shared;
};

struct kernels {
	struct report *r;
	uint64_t cnt, node_cnt, unnamed_cnt, total_ns, threads, blocks;
	struct keys keys, stream_keys, func_keys;
	struct kernel *list;
	struct kernel_func *funcs;
	unsigned cap, func_cap;
	uint64_t cc_major, cc_minor;
	uint64_t sm_cnt;
	bool has_major, has_minor, mixed; /* mixed: devices of more than one capability */
	bool has_sms, mixed_sms;	  /* the same for their number of multiprocessors */
	struct kernel **sorted;		  /* after the finish: most time first */
};

/* Records attributes and occupancy that the program queried. */
void kernels_query(struct kernels *k, const struct trace_event *ev);
/* Records the same of an execution or a device (--gpu-time). */
void kernels_gpu(struct kernels *k, const struct trace_event *ev);
/* Applies these to the launched kernels. */
void kernels_occupancy(struct kernels *k);
struct kernel_func *kernels_func(struct kernels *k, uint64_t func, uint32_t pid);
/* Compute capability as major * 10 + minor; 0: not known. */
unsigned kernels_cc(const struct kernels *k);

extern const struct section_table kernels_table;
void kernels_print(const void *a, const struct term *term);
/* why: the line before the command. */
void kernel_print_ncu(const struct report *r, const struct kernel *x, const char *why,
		      const struct term *term);

#endif /* REPORT_KERNELS_KERNELS_PRIV_H */
