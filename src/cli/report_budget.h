/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --budget of report, diff and run, and report --make-budget. */
#ifndef CLI_REPORT_BUDGET_H
#define CLI_REPORT_BUDGET_H

#include "opts.h"

struct perf_budget;
struct out;

/* Some limits are broken. */
#define EXIT_BROKEN 3

/* Ends with a usage error if options contradict --budget, or need it. */
void report_budget_check(const struct opts *o);
/* The exit status of report --budget and --make-budget. */
int report_budget(const struct opts *o);
/* diff --budget: the first half of the files is old, the second half new. */
int diff_budget(const struct opts *o);
/* Compares traces with a budget and writes the result; old is
 * empty for a budget without limits on changes. Returns the exit status. */
int budget_of_runs(const struct opts *o, struct perf_budget *b, const struct strv *old,
		   const struct strv *new);
/* cmd_report.c: one report of these files, as JSON. 0, or -1 after reporting. */
int report_as_json(const struct opts *o, const struct strv *files, struct out *text);

#endif /* CLI_REPORT_BUDGET_H */
