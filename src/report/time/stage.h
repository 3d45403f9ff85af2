/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time by stage; for other analyses, valid after its finish. */
#ifndef REPORT_TIME_STAGE_H
#define REPORT_TIME_STAGE_H

#include "report/report.h"

enum stage {
	STAGE_INIT,
	STAGE_LOAD,
	STAGE_INPUT,
	STAGE_WARMUP,
	STAGE_INFERENCE,
	STAGE_SYNC,
	STAGE_OUTPUT,
	STAGE_CLEANUP,
	STAGE_OTHER,
	STAGE_CNT
};

/* Phases of a run, in order. */
enum phase {
	PHASE_BEFORE, /* before the first call */
	PHASE_INIT,   /* until the first context */
	PHASE_LOAD,
	PHASE_WARMUP,
	PHASE_RUN, /* the steady state: from the first iteration after the warm-up to the end of the
		      last; without iterations, all that comes after the loading */
	PHASE_AFTER,
	PHASE_END, /* after the last work */
	PHASE_CNT
};

struct stage_sum {
	uint64_t first_ns, last_ns; /* of its calls, or of its time outside calls; 0, 0: nothing */
	uint64_t wall_ns, call_ns, call_cnt, launch_cnt, bytes;
	uint64_t alloc_bytes, htod_bytes;
};

/* Activity to which each moment of the trace belongs. */
enum stage_part {
	PART_LAUNCH,
	PART_TRANSFER,
	PART_SYNC,
	PART_MEMORY,
	PART_MODULE,
	PART_OTHER,
	PART_OUTSIDE, /* in no CUDA call */
	PART_CNT
};
struct stage_parts {
	uint64_t ns[PART_CNT];
};

struct stage_result {
	struct stage_sum stages[STAGE_CNT];
	struct stage_parts all, steady;	   /* steady: PHASE_RUN */
	uint64_t phase_ns[PHASE_CNT];	   /* they add up to the whole */
	uint64_t phase_call_ns[PHASE_CNT]; /* of that, in calls */
	uint64_t run_from_ns, run_to_ns;   /* PHASE_RUN; 0, 0: there is none */
	uint64_t run_bytes;		   /* copied in it */
};
/* Sets zeroes if the analysis did not run. */
void stage_result(const struct report *r, struct stage_result *res);
/* The stages of one process, by its own first context, iterations and last work. They last from the
 * start of its first call to the end of its last. false: it has none. The first STAGE_PROCS
 * processes that call CUDA have them, if there are two or more. */
#define STAGE_PROCS 64
bool stage_of_process(const struct report *r, uint32_t pid, struct stage_result *res);
/* The surrounding stage: the one that time outside calls would have. */
enum stage stage_of_moment(const struct report *r, uint64_t ns);
const char *stage_name(enum stage s);
enum stage_part stage_part_of(const struct api_fn *fn);
/* Time outside calls so far: a call that began before and returns later removes it. ns is less than
 * end_ns - start_ns if neighbours were merged. */
struct stage_gap {
	uint64_t start_ns, end_ns, ns;
};
/* Removes that time from the gaps. Returns how much it was. */
uint64_t stage_gaps_take(struct stage_gap *gaps, unsigned *cnt, uint64_t start_ns, uint64_t end_ns);
/* Share of the time in calls. */
double stage_part_share(const struct stage_parts *p, enum stage_part part);

#endif /* REPORT_TIME_STAGE_H */
