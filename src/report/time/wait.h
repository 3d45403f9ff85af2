/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that block; for other analyses. */
#ifndef REPORT_TIME_WAIT_H
#define REPORT_TIME_WAIT_H

#include "report/report.h"

struct wait_fn_result {
	const char *name;
	uint64_t cnt, total_ns, max_ns;
};
struct unfinished_wait {
	const struct api_fn *fn; /* NULL: none */
	const char *kernel;	 /* launched last before it; NULL: not known */
	uint64_t start_ns, ns;	 /* until its thread or the trace ended */
	uint32_t pid, tid;
};
struct wait_result {
	uint64_t count, total_ns, thread_cnt;
	struct wait_fn_result fns[8]; /* most time first */
	unsigned fn_cnt;
	struct wait_fn_result may[2]; /* calls that may have waited */
	unsigned may_cnt;
	const char *thread_comm; /* the thread that waited longest */
	uint32_t thread_tid;
	uint64_t thread_ns;
	struct unfinished_wait unfinished; /* the longest one */
	uint64_t longest_returned_ns;
};
/* Sets zeroes if the analysis did not run. */
void wait_result(const struct report *r, struct wait_result *res);

/* A wait that has not returned for so long does not return. */
static inline bool wait_is_hang(uint64_t ns, uint64_t longest_returned_ns)
{
	return ns >= 1000000000 && ns >= 10 * longest_returned_ns;
}

#endif /* REPORT_TIME_WAIT_H */
