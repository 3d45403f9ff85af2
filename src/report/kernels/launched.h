/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a kernel was launched, for other analyses. After the finish. */
#ifndef REPORT_KERNELS_LAUNCHED_H
#define REPORT_KERNELS_LAUNCHED_H

#include "report/report.h"

struct launched {
	uint64_t blocks; /* of the largest grid; 0: not known */
	bool has_waves;
	/* With has_waves. tail_share: part of the waves' capacity that the last leaves empty. */
	double waves, tail_share;
};

/* kernel: the name as in events. Zeros if it was not launched. */
struct launched kernels_launched(const struct report *r, const char *kernel);
/* Prints the command that profiles it with Nsight Compute, if there is one. why: the line before.
 */
void kernels_print_ncu(const struct report *r, const char *kernel, const char *why,
		       const struct term *term);

#endif /* REPORT_KERNELS_LAUNCHED_H */
