/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many blocks of a kernel one multiprocessor can hold at once. */
#ifndef REPORT_KERNELS_OCCUPANCY_H
#define REPORT_KERNELS_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

struct occupancy_use {
	uint64_t threads;    /* of a block */
	uint64_t registers;  /* of a thread */
	uint64_t shared_mem; /* of a block: static and dynamic */
};

/* Threads that one multiprocessor holds at most; 0: the compute capability (major * 10 + minor) is
 * not known here. */
unsigned occupancy_max_threads(unsigned cc);
/* Blocks that one multiprocessor holds at once; false when that cannot be told. */
bool occupancy_blocks(unsigned cc, const struct occupancy_use *use, uint64_t *blocks);
/* The part (0..1) of its warps that so many blocks have. cc is one that is known here. */
double occupancy_share(unsigned cc, uint64_t threads, uint64_t blocks);

#endif /* REPORT_KERNELS_OCCUPANCY_H */
