/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps the function number in a kernel's arguments to NCCL's algorithm and protocol. */
#ifndef DECODE_NCCL_KERNELS_H
#define DECODE_NCCL_KERNELS_H

#include "ops.h"

#include <stdbool.h>
#include <stdint.h>

struct nccl_kernel {
	enum api_op op;			  /* collective; OP_NONE: no API function */
	const char *algorithm, *protocol; /* "RING", "LL"; NULL: none */
};

/* Offset of the first word of a kernel's batch, after ncclDevKernelArgs' other members (2.22 to
 * 2.30). It contains the device function's number. */
#define NCCL_BATCH_OFF 32
static inline uint32_t nccl_func_of(uint32_t batch)
{
	return batch >> 17;
}

/* Returns false if the version's numbers are unknown, or it has no such number. */
bool nccl_kernel_by_func(uint32_t version, uint32_t func, struct nccl_kernel *k);

#endif /* DECODE_NCCL_KERNELS_H */
