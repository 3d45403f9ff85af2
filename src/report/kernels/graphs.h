/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUDA graphs; for other analyses. */
#ifndef REPORT_KERNELS_GRAPHS_H
#define REPORT_KERNELS_GRAPHS_H

#include "report/report.h"

/* Id of the call that ended the capture of the launched graph; 0: not known. */
uint64_t graphs_capture_of(const struct report *r, const struct trace_event *ev);
/* Number of kernels in the launched graph; 0: none is known. */
uint64_t graphs_kernels_of(const struct report *r, const struct trace_event *ev);

#endif /* REPORT_KERNELS_GRAPHS_H */
