/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches, by kernel. */
#ifndef REPORT_WORK_KERNELS_H
#define REPORT_WORK_KERNELS_H

#include "report/report.h"

extern const struct analysis_ops kernels_ops;

#endif /* REPORT_WORK_KERNELS_H */
