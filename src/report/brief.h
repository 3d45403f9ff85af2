/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The short report: the most important results, in at most BRIEF_LINES lines. */
#ifndef REPORT_BRIEF_H
#define REPORT_BRIEF_H

#include "report.h"

/* Line limit at 60 columns or more. */
#define BRIEF_LINES 40

/* Shows completeness, failures, limits, times, advice and further commands. */
/* Whether the trace is complete, and its content. */
void brief_print_extent(const struct report *r, const struct term *term);
void brief_print(const struct report *r, const struct term *term);

/* report.c: lists the redacted strings; prints nothing if there are none. */
void report_print_redacted(const struct report *r, const struct term *term);

#endif /* REPORT_BRIEF_H */
