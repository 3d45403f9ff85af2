/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Launches, by kernel. */
#ifndef REPORT_KERNELS_H
#define REPORT_KERNELS_H

#include "report.h"

extern const struct analysis_ops kernels_ops;

#endif /* REPORT_KERNELS_H */
