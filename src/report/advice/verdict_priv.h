/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of the verdict; verdict.c decides, verdict_print.c shows. */
#ifndef REPORT_ADVICE_VERDICT_PRIV_H
#define REPORT_ADVICE_VERDICT_PRIV_H

#include "report/gpu/gpu.h"
#include "report/iter/iter.h"
#include "report/time/stage.h"
#include "verdict.h"

/* VERDICT_LIMIT(ID, name): a possible limit, and its name in JSON. */
#define VERDICT_LIMITS(LIMIT)                                                                      \
	LIMIT(UNKNOWN, "not-known")                                                                \
	LIMIT(GPU, "gpu")                                                                          \
	LIMIT(HOST, "host")                                                                        \
	LIMIT(WAITS, "waits")                                                                      \
	LIMIT(TRANSFERS, "transfers")                                                              \
	LIMIT(STARTUP, "start-up")                                                                 \
	LIMIT(MEMORY, "memory")                                                                    \
	LIMIT(MODULES, "modules")                                                                  \
	LIMIT(COLLECTIVES, "collectives")                                                          \
	LIMIT(FAILURE, "failure")
/* With fewer iterations there is no steady state, if they take less than a small share of the
 * trace. */
#define VERDICT_ITERATIONS 5
enum verdict_limit {
#define LIMIT(id, name) LIMIT_##id,
	VERDICT_LIMITS(LIMIT)
#undef LIMIT
		LIMIT_CNT
};

struct verdict {
	struct report *r;
	enum verdict_limit limit;
	char sentence[768];
	size_t gain_from, gain_to; /* the possible gain in it */
	const char *basis;	   /* "measured", "host", "none" */
	uint64_t ns, of_ns;	   /* the supporting number, and its whole */
	uint64_t at_most_ns;	   /* possible gain, as part of the trace */
	/* inputs of the decision */
	struct stage_result stages;
	struct iter_result it;
	struct gpu_period gpu;
	struct gpu_idle idle;
	uint64_t whole_ns, startup_ns, run_ns; /* all phases; those before the run; the run */
	const char *scope;		       /* "the steady state", or its replacement */
	bool has_args, has_calls, has_work;    /* has_calls: and their arguments */
	const char *not_recorded;    /* option that left out what the verdict needs, or NULL */
	bool of_summary;	     /* iterations are unknown; start-up is a lower bound */
	bool is_unsure;		     /* of_summary: another part has another limit */
	uint64_t wait_cnt, proc_cnt; /* of_summary: waits in the run, and processes */
};

/* Decides on the limit. The findings need it, so they call this in their finish; hangs and notes
 * follow in the verdict's own. */
void verdict_decide(struct verdict *v);
/* The verdict of a summary, from inputs that it has filled in: whole_ns, startup_ns and phase_ns up
 * to the end of loading, run_ns, steady and run_bytes of a part of the rest, gpu, scope, has_*, and
 * those of of_summary.
 * hang_ns: of a wait that has not returned; 0: none. failed: the first function that returned that
 * its context is unusable, with this result, or NULL. The others are of verdict_missing(). */
void verdict_of_summary(struct verdict *v, uint64_t hang_ns, const struct api_fn *failed,
			int32_t result, double missing, bool are_calls);
/* Estimated share of the trace that is missing. are_calls: calls are among it. */
double verdict_missing(const struct losses *lost, double call_cnt, double line_cnt,
		       bool *are_calls);
/* Whether the verdict mentions start-up; the longest phase of start-up. */
bool verdict_notes_startup(const struct verdict *v);
enum phase verdict_longest_startup(const struct verdict *v);

/* Fills not_recorded. */
void verdict_note_not_recorded(struct verdict *v, const struct trace_info *info,
			       const struct losses *lost, double call_cnt);
/* What is not known for this reason: "durations were not recorded (--entry-only)". */
const char *verdict_not_recorded_text(const struct verdict *v, char *text, size_t size);

const char *verdict_limit_name(enum verdict_limit limit);
/* Formats the name of a phase for the table; returns text. */
const char *verdict_phase(const struct verdict *v, enum phase phase, char *text, size_t size);
extern const struct section_table verdict_table;
void verdict_print(const void *a, const struct term *term);

#endif /* REPORT_ADVICE_VERDICT_PRIV_H */
