/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Number of blocks of a kernel that one multiprocessor can hold at once. */
#ifndef REPORT_KERNELS_OCCUPANCY_H
#define REPORT_KERNELS_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

struct occupancy_use {
	uint64_t threads;    /* of a block */
	uint64_t registers;  /* of a thread */
	uint64_t shared_mem; /* of a block: static and dynamic */
};

/* Maximum threads of one multiprocessor; 0: the table lacks the compute capability (major * 10 +
 * minor). */
unsigned occupancy_max_threads(unsigned cc);
/* Blocks that one multiprocessor holds at once; false: not known. */
bool occupancy_blocks(unsigned cc, const struct occupancy_use *use, uint64_t *blocks);
/* The share (0..1) of its warps that these blocks use. The table must have cc. */
double occupancy_share(unsigned cc, uint64_t threads, uint64_t blocks);

#endif /* REPORT_KERNELS_OCCUPANCY_H */
