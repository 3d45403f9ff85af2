/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The limit of a program, for the short report. Valid after the finish. */
#ifndef REPORT_ADVICE_VERDICT_H
#define REPORT_ADVICE_VERDICT_H

#include "report/report.h"

/* The only definition of GPU idle time: in the steady state, no device executes anything. Measured
 * with GPU times, else a lower bound from the host's waits. */
struct gpu_idle {
	bool known, measured;
	uint64_t ns, of_ns; /* measured on several devices: their mean */
};
void verdict_idle(const struct report *r, struct gpu_idle *res);
/* What is not known because options left out calls or durations: "durations were not recorded
 * (--entry-only)". NULL: nothing. */
const char *verdict_not_recorded(const struct report *r);
/* "the steady state", or its replacement if there is none. */
const char *verdict_scope(const struct report *r);
/* Prints "Verdict: ...". */
void verdict_print_sentence(const struct report *r, const struct term *term);
/* Prints start-up and steady state in a table whose rows add up to the whole; then, if not
 * is_short, the host's time by activity. */
void verdict_print_time(const struct report *r, const struct term *term, bool is_short);

#endif /* REPORT_ADVICE_VERDICT_H */
