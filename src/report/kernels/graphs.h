/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUDA graphs; for other analyses. */
#ifndef REPORT_KERNELS_GRAPHS_H
#define REPORT_KERNELS_GRAPHS_H

#include "report/report.h"

/* The call that ended the capture of the graph which this call launches: its id; 0: not known. */
uint64_t graphs_capture_of(const struct report *r, const struct trace_event *ev);
/* The kernels that the graph which this call launches has; 0: none is known. */
uint64_t graphs_kernels_of(const struct report *r, const struct trace_event *ev);

#endif /* REPORT_KERNELS_GRAPHS_H */
