/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes and operations of kernels, from their names and recorded parameters (--kernel-args). */
#ifndef REPORT_KERNELS_KERNEL_WORK_H
#define REPORT_KERNELS_KERNEL_WORK_H

#include "peak.h"

struct kernel_work {
	double bytes;	     /* at least: each operand once */
	double ops;	     /* of matrix products; 0: it has none */
	enum peak_type type; /* of ops */
};
/* Returns false if the kernel is not in kernel_work.def, or its parameters contradict its name. */
bool kernel_work_of(const struct launch_info *l, struct kernel_work *w);
/* Bytes of a matrix product's operands, each counted once; 0: not known. a_cnt, b_cnt: the number
 * of matrices A and B, which a batch may share. */
double product_bytes(const struct gemm_info *g, uint64_t a_cnt, uint64_t b_cnt);

#endif /* REPORT_KERNELS_KERNEL_WORK_H */
