/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules and found causes: the state of the findings.
 *
 * findings.def has one row per rule, with its texts; findings_rules.c has a function for each row.
 * findings.c counts events for them and sorts the findings; findings_print.c prints them.
 */
#ifndef REPORT_ADVICE_FINDINGS_PRIV_H
#define REPORT_ADVICE_FINDINGS_PRIV_H

#include "report/collect.h"
#include "report/report.h"
#include "report/iter/iter.h"
#include "report/step/evidence.h"
#include "text/table.h"

#define VALUES_MAX 9
#define ERRORS_MAX 32 /* per process */

/* The values of each rule, by name or by position in its row. */
union finding_values {
	double all[VALUES_MAX];
#define VALUE(kind, name, what) double name;
#define FINDING(rule, id, severity, title, values, ...)                                            \
	struct rule {                                                                              \
		values                                                                             \
	} rule;
#include "findings.def"
#undef FINDING
#undef VALUE
};
_Static_assert(sizeof(union finding_values) == VALUES_MAX * sizeof(double), "space for all values");

/* The most important first. */
enum severity {
	SEVERITY_INCOMPLETE,
	SEVERITY_ERROR,
	SEVERITY_HANG,
	SEVERITY_LEAK,
	SEVERITY_COST,
	SEVERITY_MINOR, /* it costs nothing */
};

struct finding {
	const struct rule *rule;
	uint64_t lost_ns; /* mean over the clocks */
	double steady;	  /* share of lost_ns in the steady state, 0 to 1 */
	uint64_t at_ns;	  /* an example; 0: none */
	/* For a loss summed over threads or devices: their number, and "thread" or "device". */
	unsigned clocks;
	const char *clock;
	double confidence;
	const struct api_fn *fn; /* the function that it is about, or NULL */
	uint64_t call_id;	 /* an example; 0: none */
	struct step_examples examples;
	char place[128];  /* where it is called: step_place() */
	char other[320];  /* another place, or other words, or empty */
	char period[96];  /* the part of the run that it is about, or empty */
	bool is_limit;	  /* the verdict is about it */
	bool is_replayed; /* the gain in the steady state is that of a replay of the steps */
	bool is_of_steps; /* it matters only if it costs a share of the steps */
	union finding_values v;
	char brief[256], text[640], advice[384], confidence_reason[256], gain[192];
};

/* Calls that matter in the iterations after the warm-up. Iterations are known only at the end, so
 * the times of the calls are kept. */
enum hot_kind { HOT_ALLOC, HOT_FREE, HOT_MODULE, HOT_GRAPH, HOT_QUERY, HOT_MAY_WAIT, HOT_CNT };

struct hot_call {
	uint64_t start_ns, ns;
	uint32_t pid, tid;
};

struct hot_sum {
	uint64_t cnt, ns, at_ns; /* at_ns: start of the longest */
	uint64_t late_cnt;	 /* in the second half of the iterations */
	struct keys threads;
};

/* Kernels that a thread has launched since it last waited. One of them caused a failure, or does
 * not end. */
#define SINCE_MAX 4
struct since_wait {
	const char *kernels[SINCE_MAX]; /* the first ones, each once */
	unsigned cnt, more;		/* more: other launches */
};

struct find_thread {
	uint64_t submits, bytes; /* since its last wait */
	uint64_t small_end_ns;	 /* end of a small wait, if nothing was submitted since */
	uint64_t small_cpy_dir;	 /* direction + 1 of the previous copy if it was small; 0: none */
	struct since_wait since;
	bool has_small, has_row; /* had small waits; had consecutive small copies */
};

struct find_error {
	const struct api_fn *fn;
	int32_t result;
	uint32_t pid;
	uint64_t cnt, first_ns;
	uint64_t size;		 /* size that the first call requested; 0: none */
	struct since_wait since; /* launches of its thread */
	const char *comm;
	bool ignored; /* the process continued */
};

struct findings {
	struct report *r;
	struct hot_call *calls[HOT_CNT];
	unsigned cnt[HOT_CNT], cap[HOT_CNT];
	struct memlimit_share call_rows[HOT_CNT], error_rows;
	uint64_t unkept_cnt; /* calls that did not fit */
	uint64_t query_cnt, query_ns;
	struct keys query_threads;
	unsigned small_threads, row_threads; /* with small waits; with consecutive small copies */
	struct keys thread_keys;
	struct find_thread *threads;
	unsigned thread_cap;
	uint64_t wait_cnt, small_wait_cnt, small_wait_ns, bubble_ns, small_wait_at;
	uint64_t small_votes;
	const struct api_fn *small_fn;
	const struct stack_frame *small_frame;
	uint64_t row_cnt, row_ns, row_at; /* consecutive small copies */
	struct spread bubbles, rows;	  /* bubble_ns, row_ns by time */
	struct find_error errors[MEMLIMIT_ALL(ERRORS_MAX)];
	unsigned error_cnt, pending;
	uint64_t deinit_cnt;
	/* valid after the finish */
	struct iter_result it;
	uint64_t run_from_ns, run_to_ns; /* the steady state */
	uint64_t run_ns;		 /* its length, as in the verdict */
	uint64_t steady_cnt;		 /* iterations after the warm-up */
	struct hot_sum hot[HOT_CNT];
	struct keys memory_threads; /* threads with HOT_ALLOC or HOT_FREE calls */
	struct finding *list;
	unsigned list_cnt;
};

enum value_kind {
	VALUE_END, /* ends a row's values */
	VALUE_COUNT,
	VALUE_CODE,
	VALUE_TIME,
	VALUE_BYTES,
	VALUE_SHARE,
	VALUE_RATE,
	VALUE_WORDS,
};

struct finding_value {
	enum value_kind kind;
	const char *name, *what; /* what: description in the evidence */
};

struct rule {
	const char *id, *title;
	enum severity severity;
	/* Returns true if the rule applies. x is zero except for rule and confidence. */
	bool (*applies)(const struct findings *f, struct finding *x);
	const struct finding_value *values; /* ends with VALUE_END */
	const char *brief, *text, *advice, *confidence_reason;
	double confidence;
};

enum {
#define FINDING(rule, ...) FINDING_##rule,
#include "findings.def"
#undef FINDING
	FINDING_CNT
};
extern const struct rule finding_rules[FINDING_CNT];

/* findings_failure.c */
bool gpu_fault(const struct findings *f, struct finding *x);
bool out_of_memory(const struct findings *f, struct finding *x);

/* findings_step.c */
bool plans_rebuilt(const struct findings *f, struct finding *x);
bool data_loading(const struct findings *f, struct finding *x);
/* Writes the collective that takes the most time of the median step's critical path, and its place,
 * to x->other. */
void exposed_collective(const struct findings *f, struct finding *x);
/* Writes the kernels and graphs that take the most time of the median step's critical path to
 * x->other. */
void longest_kernels(const struct findings *f, struct finding *x);
/* Sets the calls that show that the host launches too late. */
void finding_launches(const struct findings *f, struct finding *x);
/* Sets the calls that show what the topic is about. topic: enum step_topic. */
void finding_examples(const struct findings *f, struct finding *x, unsigned topic);
/* Replaces the loss in the steady state by what a replay of the steps without the topic saves, if
 * the process with the steps has anything of it. topic: enum step_topic. */
void finding_replay(const struct findings *f, struct finding *x, unsigned topic);
/* The same for the process that is late most. */
void finding_replay_late(const struct findings *f, struct finding *x, uint32_t pid);
bool python_lock(const struct findings *f, struct finding *x);
bool other_thread(const struct findings *f, struct finding *x);
bool host_work(const struct findings *f, struct finding *x);
/* By replay, the share of the steps' time that the host costs. Steps without CUDA graphs: what one
 * graph for each step would save; others: all that the host takes. Returns false if no step was
 * replayed. */
bool step_host_share(const struct findings *f, double *share);

/* findings_startup.c */
bool gpu_bound(const struct findings *f, struct finding *x);
bool startup_host(const struct findings *f, struct finding *x);
bool startup_init(const struct findings *f, struct finding *x);
bool startup_load(const struct findings *f, struct finding *x);
bool startup_warmup(const struct findings *f, struct finding *x);
/* findings_serving.c */
bool decode_host(const struct findings *f, struct finding *x);
/* The process that serves requests. */
uint32_t decode_pid(const struct findings *f);
bool prefill_blocks(const struct findings *f, struct finding *x);
bool cache_small(const struct findings *f, struct finding *x);
bool graphs_unused(const struct findings *f, struct finding *x);
bool graphs_padded(const struct findings *f, struct finding *x);

/* Formats a value for people. */
void finding_value(enum value_kind kind, double v, char cell[CELL_SZ]);
/* Fills a template of the rule with the finding's values. Returns false if it is malformed. */
bool finding_fill(const struct finding *x, const char *template, char *text, size_t size);
/* Fills x->gain: the possible gain by period; empty if it is not known. */
void finding_format_gain(const struct findings *f, struct finding *x);
/* The order of findings in all views. */
#define FINDINGS_ORDER                                                                             \
	"errors first, then the limit and large gains, then by gain; do not add up gains"

/* The kernels that the thread launched since it last waited; NULL: not known. */
const struct since_wait *findings_since_wait(const struct report *r, uint32_t pid, uint32_t tid);

/* "steady" or "startup", where most of its time is lost. */
const char *finding_severity(const struct finding *x);
/* Time lost in the steady state, in ns. */
static inline uint64_t finding_steady_ns(const struct finding *x)
{
	return x->lost_ns * x->steady;
}

/* Share of the steady state that is lost. Time in calls that overlap may be longer than it. */
static inline double finding_steady_share(const struct findings *f, const struct finding *x)
{
	double share = ratio_of(finding_steady_ns(x), f->run_ns);

	return share < 1 ? share : 1;
}

extern const struct section_table findings_table;
void findings_print(const void *a, const struct term *term);

#endif /* REPORT_ADVICE_FINDINGS_PRIV_H */
