/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What other analyses ask the overview. */
#ifndef REPORT_TIME_OVERVIEW_H
#define REPORT_TIME_OVERVIEW_H

#include "report/report.h"

struct overview_totals {
	uint64_t call_cnt, call_ns; /* call_ns: of calls that are in no other */
	uint64_t launch_cnt, graph_launch_cnt, error_cnt;
	uint64_t class_cnt[CLASS_CNT], class_ns[CLASS_CNT];
	uint64_t class_top_ns[CLASS_CNT]; /* its part of call_ns */
};
void overview_totals(const struct report *r, struct overview_totals *t);

#endif /* REPORT_TIME_OVERVIEW_H */
