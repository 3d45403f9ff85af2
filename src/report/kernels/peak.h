/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a GPU can compute a second, by the type that products of matrices are computed with. */
#ifndef REPORT_KERNELS_PEAK_H
#define REPORT_KERNELS_PEAK_H

#include "model/devices.h"

enum peak_type {
	PEAK_NONE,
	PEAK_FP64,
	PEAK_FP32,
	PEAK_TF32,
	PEAK_FP16,
	PEAK_BF16,
	PEAK_FP8,
	PEAK_INT8,
	PEAK_TYPE_CNT
};
/* "BF16"; of integers they are operations all the same. */
const char *peak_type_name(enum peak_type type);
/* Of a product, one of whose kernels has that name (or NULL); PEAK_NONE: it is not known. */
enum peak_type peak_type_of(const struct gemm_info *g, const char *kernel);

struct peak {
	double tflops;	    /* 10^12 operations a second, dense; 0: not known */
	uint32_t clock_khz; /* at which it does these */
	double most;	    /* the same at the highest clock */
};
/* half: sums are of 16 bits, too (GeForce has more of these). */
struct peak peak_of(const struct device *d, enum peak_type type, bool half);

#endif /* REPORT_KERNELS_PEAK_H */
