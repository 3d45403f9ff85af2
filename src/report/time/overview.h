/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The overview; for other analyses. */
#ifndef REPORT_TIME_OVERVIEW_H
#define REPORT_TIME_OVERVIEW_H

#include "report/report.h"

struct overview_totals {
	uint64_t call_cnt, call_ns; /* call_ns: of outermost calls */
	uint64_t launch_cnt, graph_launch_cnt, error_cnt;
	uint64_t class_cnt[CLASS_CNT], class_ns[CLASS_CNT];
	uint64_t class_top_ns[CLASS_CNT]; /* its part of call_ns */
};
void overview_totals(const struct report *r, struct overview_totals *t);
/* human_processes() of the processes that made calls. */
void overview_callers(const struct report *r, char *text, size_t size);

/* Model of the first GPU; NULL: unknown. */
const char *overview_gpu(const struct report *r);

/* The end of process i of the trace, from 0. false: there are no more. */
struct overview_exit {
	uint32_t pid, exit_code, signal; /* signal 0: no signal ended it */
	const char *comm;		 /* NULL: not known */
	bool exited;			 /* false: not while it was traced */
	uint64_t last_ns, call_cnt;
};
bool overview_exit(const struct report *r, unsigned i, struct overview_exit *res);

/* Failures with one result (model/failure.h). */
struct overview_error {
	const struct api_fn *fn; /* first function that returned it */
	int32_t result;
	uint64_t cnt, first_ns;
};
/* Kind i of errors, from 0; its cnt is 0 if none of them is a failure. false: there are no more. */
bool overview_error(const struct report *r, unsigned i, struct overview_error *res);

#endif /* REPORT_TIME_OVERVIEW_H */
