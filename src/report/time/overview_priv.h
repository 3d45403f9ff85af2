/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by overview.c, which counts, and overview_print.c. */
#ifndef REPORT_TIME_OVERVIEW_PRIV_H
#define REPORT_TIME_OVERVIEW_PRIV_H

#include "report/collect.h"
#include "overview.h"

#define OV_PROCS_MAX   32768 /* each is a process: twice as many */
#define OV_THREADS_MAX (1 << 20)

struct ov_fn {
	const struct api_fn *fn;
	uint64_t cnt, timed_cnt, total_ns, max_ns, error_cnt;
	struct loghist *loghist; /* of timed_cnt calls; NULL: no memory */
};

/* Functions of one public name. */
struct ov_fn_row {
	const struct api_fn *fn; /* one of them */
	uint64_t cnt, timed_cnt, total_ns, max_ns, error_cnt;
	uint64_t percentile[3];
};

struct ov_proc {
	uint32_t pid;
	const char *comm;
	uint64_t first_ns, last_ns, call_cnt;
	unsigned thread_cnt;
	bool exited;
	uint32_t exit_code, signal; /* signal 0: no signal ended it */
};

struct ov_error {
	int32_t code;
	uint64_t cnt, first_ns;
	const struct api_fn *first; /* first function that returned it */
	/* Those that are failures (model/failure.h). */
	struct overview_error failures;
};

struct overview {
	struct report *r;
	struct overview_totals t;
	uint64_t type_cnt[TYPE_CNT];
	uint64_t unfinished_cnt, abandoned_cnt;
	struct keys fn_keys, proc_keys, thread_keys;
	const char *gpu_model; /* of the first GPU; NULL: unknown */
	unsigned caller_cnt;   /* processes that made a call */
	struct ov_fn *fns;
	struct ov_proc *procs;
	unsigned fn_cap, proc_cap;
	struct ov_error errors[MEMLIMIT_ALL(MEMLIMIT_ERRORS_MAX)];
	struct memlimit_share error_rows;
	unsigned error_kinds;
	uint64_t class_max_ns[CLASS_CNT], class_timed[CLASS_CNT];
	/* after the finish: most time first */
	unsigned by_time[CLASS_CNT];
	struct ov_fn_row *rows;
	unsigned row_cnt;
};

extern const struct section_table overview_table;
void overview_finish(void *a);
void overview_print(const void *a, const struct term *term);

#endif /* REPORT_TIME_OVERVIEW_PRIV_H */
