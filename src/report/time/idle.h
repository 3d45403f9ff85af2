/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Idle time of the GPU as far as the host can see; for other analyses. */
#ifndef REPORT_TIME_IDLE_H
#define REPORT_TIME_IDLE_H

#include "report/report.h"

enum idle_cause { IDLE_CPU, IDLE_MODULE, IDLE_ALLOC, IDLE_TRANSFER, IDLE_CALL, IDLE_CAUSE_CNT };

struct idle_result {
	uint64_t count, total_ns, span_ns; /* span: from the first work to the last */
	uint64_t in_iter_cnt, in_iter_ns;  /* of these periods, within rounds of iterations */
	uint64_t cause_ns[IDLE_CAUSE_CNT];
	uint64_t longest_ns;
	const char *longest_after, *longest_before;
	/* the stream that was idle longest */
	uint64_t stream, stream_cnt, stream_ns;
};
/* Sets zeroes if the analysis did not run. */
void idle_result(const struct report *r, struct idle_result *res);
/* Idle nanoseconds of that process, as far as the host can see. */
uint64_t idle_of_process(const struct report *r, uint32_t pid);
const char *idle_cause_name(enum idle_cause c);

#endif /* REPORT_TIME_IDLE_H */
