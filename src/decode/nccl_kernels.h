/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which algorithm and protocol of NCCL a kernel runs, by the number in its arguments. */
#ifndef DECODE_NCCL_KERNELS_H
#define DECODE_NCCL_KERNELS_H

#include "ops.h"

#include <stdbool.h>
#include <stdint.h>

struct nccl_kernel {
	enum api_op op;			  /* that it is for; OP_NONE: none that has a function */
	const char *algorithm, *protocol; /* "RING", "LL"; NULL: it has none */
};

/* The device function's number in the first word of a kernel's batch, after ncclDevKernelArgs'
 * other members (2.22 to 2.30). */
#define NCCL_BATCH_OFF 32
static inline uint32_t nccl_func_of(uint32_t batch)
{
	return batch >> 17;
}

/* False: the version's numbers are not known, or it has none such. */
bool nccl_kernel_by_func(uint32_t version, uint32_t func, struct nccl_kernel *k);

#endif /* DECODE_NCCL_KERNELS_H */
