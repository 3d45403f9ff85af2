/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Streams and events; for other analyses. */
#ifndef REPORT_GPU_STREAMS_H
#define REPORT_GPU_STREAMS_H

#include "report/report.h"

struct streams_result {
	uint64_t default_work, work; /* submitted to the legacy default stream, and in total */
	uint64_t switches;	     /* between the default stream and streams that wait for it */
	uint64_t first_switch_ns;
};
/* All zero if the analysis did not run. */
void streams_result(const struct report *r, struct streams_result *res);

#endif /* REPORT_GPU_STREAMS_H */
