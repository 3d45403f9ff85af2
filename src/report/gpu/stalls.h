/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What limits kernels by their samples (--stalls), for other analyses. After the finish. */
#ifndef REPORT_GPU_STALLS_H
#define REPORT_GPU_STALLS_H

#include "report/report.h"

/* Writes "limited by bank conflicts of shared memory", or "at its limit: bandwidth of memory".
 * Returns false if it is not known. */
bool stalls_limit(const struct report *r, const char *kernel, char *buf, size_t size);

#endif /* REPORT_GPU_STALLS_H */
