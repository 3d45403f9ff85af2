/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The short report: what matters most, in at most BRIEF_LINES lines. */
#ifndef REPORT_BRIEF_H
#define REPORT_BRIEF_H

#include "report.h"

/* On 80 columns or more. */
#define BRIEF_LINES 40

/* Is it complete, what failed, what limits it, where the time went, what to do, what to call. */
void brief_print(const struct report *r, const struct term *term);

/* report.c: which strings are hidden; nothing when none are. */
void report_print_redacted(const struct report *r, const struct term *term);

#endif /* REPORT_BRIEF_H */
