/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A budget: limits on values of a report, from a YAML file, for a pipeline that must fail when a
 * change costs too much. The values are found in the report's JSON, by the paths of limits.def.
 */
#ifndef BUDGET_PERF_BUDGET_H
#define BUDGET_PERF_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct out;

enum budget_scope {
	BUDGET_RUN,
	BUDGET_ITERATION,
	BUDGET_STEP,
	BUDGET_STAGE,
	BUDGET_RANGE,
	BUDGET_OPERATOR,
	BUDGET_FUNCTION,
	BUDGET_SCOPE_CNT
};

/* Which of two programs a trace is of. A budget without limits on changes has no old one. */
enum budget_side { BUDGET_OLD, BUDGET_NEW, BUDGET_SIDE_CNT };

enum budget_unit { BUDGET_COUNT, BUDGET_BYTES, BUDGET_TIME, BUDGET_SHARE };

struct budget_row {
	enum budget_scope scope;
	const char *name;
	enum budget_unit unit;
	const char *needs, *path, *text;
};

/* The rows of limits.def; *cnt is their number. */
const struct budget_row *budget_rows(unsigned *cnt);
/* As in the key `per` of a budget. */
const char *budget_scope_name(enum budget_scope scope);
bool budget_has_name(enum budget_scope scope);
bool budget_has_statistic(enum budget_scope scope);
/* The values of the key `of`, separated by blanks. */
#define BUDGET_STATISTICS "max median p95 p99 mean min total"

enum budget_state {
	BUDGET_HELD,
	BUDGET_EXCEEDED,
	BUDGET_UNMEASURED, /* the trace does not have it */
	BUDGET_LOSSY,	   /* below its limit, but records are missing */
	BUDGET_NOT_TRACED, /* below its limit, but options left out calls that count */
};

/* A value in several runs of one program. */
struct budget_runs {
	double *x;
	unsigned cnt;
	bool unmeasured;	/* in one of them */
	const char *not_traced; /* the option that left out calls in one of them; NULL: none */
	/* The maximum of a count or of bytes, the median of a time or a share. */
	double value;
};

struct budget_limit {
	const struct budget_row *row;
	char *name;	/* of the stage, range or the like; else NULL */
	const char *of; /* for an iteration or a step: max, median, ... */
	unsigned line;	/* in the file, from 1 */
	bool of_change; /* limits by how much the value may grow; written as +N */
	bool is_share;	/* of_change: max is a share of the old value */
	double max;	/* in units of the row: ns, bytes, a share of 1 */
	struct budget_runs runs[BUDGET_SIDE_CNT];
	/* of_change: */
	double allowed; /* growth that does not break the limit; at least noise */
	double noise;	/* growth of a time that chance explains */
	enum budget_state state;
};

struct perf_budget {
	char *path;
	bool allow_losses;
	struct budget_limit *limits;
	unsigned cnt, broken_cnt;
	unsigned run_cnt[BUDGET_SIDE_CNT];
	bool incomplete[BUDGET_SIDE_CNT]; /* one of the traces */
	unsigned change_line;		  /* of the first limit on a change; 0: none */
};

/* Reads a budget. Returns NULL after an error, which is printed with its line. */
struct perf_budget *perf_budget__read(const char *path);
void perf_budget__free(struct perf_budget *b);
/* Takes the values of one run from a report. json: its JSON form, len bytes with a NUL and
 * PARSE_SLACK readable bytes after them. Returns 0, -EINVAL if it is not JSON, or -ENOMEM. */
int perf_budget__measure(struct perf_budget *b, enum budget_side side, const char *json,
			 size_t len);
/* Compares the limits with the values of all runs. */
void perf_budget__judge(struct perf_budget *b);
/* A report, as for perf_budget__measure(). */
struct budget_report {
	const char *json;
	size_t len;
};
/* Writes a budget that these runs of one program, traced into the file trace, do not exceed: counts
 * as they are, bytes with 10 % more. Times need several runs; of one they are comments. Result as
 * of perf_budget__measure(). */
int budget_make(const struct budget_report *runs, unsigned cnt, const char *trace, struct out *o);

/* Writes the result. */
typedef void (*budget_print_fn)(const struct perf_budget *b, struct out *o);
/* For people: a line for each broken limit, and one with their number. */
void budget_text(const struct perf_budget *b, struct out *o);
void budget_json(const struct perf_budget *b, struct out *o);
/* A table, for a comment on a pull request. */
void budget_markdown(const struct perf_budget *b, struct out *o);
/* XML for JUnit readers: a test case for each limit. */
void budget_junit(const struct perf_budget *b, struct out *o);
/* Annotations for GitHub Actions, and the code quality report of GitLab. */
void budget_github(const struct perf_budget *b, struct out *o);
void budget_gitlab(const struct perf_budget *b, struct out *o);

#endif /* BUDGET_PERF_BUDGET_H */
