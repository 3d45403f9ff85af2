/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Peak rate of a GPU, by the type in which matrix products are computed. */
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
	PEAK_FP4,
	PEAK_INT8,
	PEAK_TYPE_CNT
};
/* "BF16"; for integer types the rates count operations too. */
const char *peak_type_name(enum peak_type type);
/* Type of a product. kernel: name of one of its kernels, or NULL. PEAK_NONE: not known. */
enum peak_type peak_type_of(const struct gemm_info *g, const char *kernel);

struct peak {
	double tflops;	    /* 10^12 operations a second, dense; 0: not known */
	uint32_t clock_khz; /* clock for tflops */
	double most;	    /* tflops at the highest clock */
};
/* half: sums have 16 bits too (faster on GeForce). */
struct peak peak_of(const struct device *d, enum peak_type type, bool half);
/* Peak rate of the device's memory in 10^9 bytes per second; 0: not known. is_listed: the value is
 * that of the product's data sheet, not of the device's clock and bus width. */
double peak_memory(const struct device *d, bool *is_listed);

#endif /* REPORT_KERNELS_PEAK_H */
