/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copies, memsets and prefetches; for other analyses. */
#ifndef REPORT_GPU_TRANSFERS_H
#define REPORT_GPU_TRANSFERS_H

#include "report/report.h"

struct transfers_result {
	uint64_t pageable_cnt, pageable_bytes, pageable_ns;
	unsigned pageable_threads;
	const struct spread *pageable; /* pageable_ns over time; NULL without the analysis */
};
/* All zero if the analysis did not run. */
void transfers_result(const struct report *r, struct transfers_result *res);

/* Returns whether the copy is from or to host memory that is known to be pageable. */
bool transfer_is_pageable(const struct report *r, const struct trace_event *ev);

#endif /* REPORT_GPU_TRANSFERS_H */
