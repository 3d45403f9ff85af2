/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * findings.c: what is counted of the events for them, and their order; findings_rules.c: one
 * function and one row of the table for each; findings_print.c.
 */
#ifndef REPORT_ADVICE_FINDINGS_PRIV_H
#define REPORT_ADVICE_FINDINGS_PRIV_H

#include "report/collect.h"
#include "report/report.h"
#include "report/iter/iter.h"
#include "text/table.h"

#define EVIDENCE_MAX 6
#define ERRORS_MAX   32

struct finding {
	const struct rule *rule;
	char text[512];
	const char *advice, *how_sure;
	uint64_t lost_ns;
	double sure;
	uint64_t at_ns; /* an example; 0: none */
	struct evidence {
		const char *what;
		char value[CELL_SZ]; /* as people read it */
		double number;
	} evidence[EVIDENCE_MAX];
	unsigned evidence_cnt;
};

/* Calls that matter when they are made in the iterations after the warm-up; which those are is
 * known at the end, so their times are kept. */
enum hot_kind { HOT_ALLOC, HOT_FREE, HOT_MODULE, HOT_QUERY, HOT_MAY_WAIT, HOT_CNT };
#define HOT_MAX 65536

struct hot_call {
	uint64_t start_ns, ns;
	uint32_t pid;
};

struct hot_sum {
	uint64_t cnt, ns, at_ns; /* at_ns: the longest */
};

struct find_thread {
	uint64_t submits, bytes; /* since its last wait */
	uint64_t small_end_ns;	 /* that wait was for little, and nothing was submitted since */
	uint64_t small_cpy_dir;	 /* direction + 1 of the small copy before; 0: none */
};

struct find_error {
	const struct cuda_fn *fn;
	int32_t result;
	uint32_t pid;
	uint64_t cnt, first_ns;
	bool ignored; /* the process went on */
};

struct findings {
	struct report *r;
	struct hot_call *calls[HOT_CNT];
	unsigned cnt[HOT_CNT], cap[HOT_CNT];
	uint64_t query_cnt, query_ns;
	struct keys thread_keys;
	struct find_thread *threads;
	unsigned thread_cap;
	uint64_t wait_cnt, small_wait_cnt, small_wait_ns, bubble_ns, small_wait_at;
	uint64_t row_cnt, row_ns, row_at; /* small copies right after another */
	struct find_error errors[ERRORS_MAX];
	unsigned error_cnt, pending;
	uint64_t deinit_cnt;
	/* from the finish on */
	struct iter_result it;
	uint64_t steady_cnt; /* iterations after the warm-up */
	struct hot_sum hot[HOT_CNT];
	struct finding *list;
	unsigned list_cnt;
};

/* true: it applies, and all but rule is filled in. */
struct rule {
	const char *id, *title;
	bool (*applies)(const struct findings *f, struct finding *x);
};
const struct rule *finding_rules(unsigned *cnt);

void findings_json(const void *a, struct json *j);
void findings_print(const void *a, const struct term *term);

#endif /* REPORT_ADVICE_FINDINGS_PRIV_H */
