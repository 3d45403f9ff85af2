/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* idle.c tracks submitted and finished work; idle_print.c shows the periods. */
#ifndef REPORT_TIME_IDLE_PRIV_H
#define REPORT_TIME_IDLE_PRIV_H

#include "report/collect.h"
#include "idle.h"

#define IDLE_FNS   8 /* functions distinguished in one period */
#define IDLE_WAITS 4 /* streams that a stream waited for, the latest ones */
#define IDLE_LIST  1000

/* Host activity of the process in a period. */
struct idle_cpu {
	const struct api_fn *fns[IDLE_FNS];
	uint64_t ns[IDLE_FNS];
	unsigned cnt;
	uint64_t call_ns, cause_ns[IDLE_CAUSE_CNT];
};

struct idle_period {
	uint64_t begin_ns, dur_ns;
	uint32_t pid;
	uint64_t stream;
	bool has_stream;
	const char *after, *before;
	struct idle_cpu cpu;
};

struct idle_wait {
	uint32_t stream; /* number + 1; 0: none */
	uint64_t record_ns;
};

struct idle_stream {
	uint64_t handle, submit_ns, idle_ns;
	uint64_t ctx; /* memory_context() of the call that made it, or of its last work */
	bool created; /* in that context */
	uint32_t pid;
	bool busy;
	uint64_t cnt, total_ns, max_ns;
	struct idle_wait waits[IDLE_WAITS];
	unsigned wait_cnt;
	bool listed;	    /* by its process: busy, or was */
	uint32_t next_busy; /* number + 1 */
};

struct idle_proc {
	uint32_t pid;
	uint32_t first_busy; /* stream, number + 1 */
	unsigned busy_cnt;   /* streams */
	uint64_t first_ns, last_ns;
	uint64_t until_ns; /* end of the last period */
	uint64_t idle_ns;  /* idle since; 0: not idle, or no work was submitted yet */
	uint64_t total_ns; /* of all periods */
	const char *after;
	struct idle_cpu cpu;
};

struct idle_event {
	uint32_t stream; /* number + 1 */
	uint64_t record_ns;
};

struct idle_place {
	uint64_t begin_ns, dur_ns;
	uint32_t pid;
};

struct idle {
	struct report *r;
	struct keys proc_keys, stream_keys, event_keys;
	struct idle_proc *procs;
	struct idle_stream *streams;
	struct idle_event *events;
	unsigned proc_cap, stream_cap, event_cap;
	struct idle_place *places;
	unsigned place_cnt, place_cap;
	struct memlimit_share place_rows;
	struct idle_period list[IDLE_LIST]; /* longest first */
	unsigned list_cnt, list_max;
	uint64_t cause_cnt[IDLE_CAUSE_CNT];
	struct idle_result res;
	const struct idle_stream **by_total; /* after the finish: most idle first */
	unsigned stream_cnt;
};

extern const struct section_table idle_table;
void idle_print(const void *a, const struct term *term);

#endif /* REPORT_TIME_IDLE_PRIV_H */
