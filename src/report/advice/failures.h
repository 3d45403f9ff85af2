/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Failed calls and processes, for the short report. */
#ifndef REPORT_ADVICE_FAILURES_H
#define REPORT_ADVICE_FAILURES_H

#include "report/report.h"

/* Prints a heading and the first max failures; nothing when nothing failed. */
void failures_print_some(const struct report *r, const struct term *term, unsigned max);

#endif /* REPORT_ADVICE_FAILURES_H */
