/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long each process had the GPUs; for other analyses. */
#ifndef REPORT_GPU_SWITCHES_H
#define REPORT_GPU_SWITCHES_H

#include "report/report.h"
#include "report/gpu/residency.h"

/* Sorted; NULL if the analysis did not run. */
const struct residency *switches_result(const struct report *r);

#endif /* REPORT_GPU_SWITCHES_H */
