/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verdict: is the second of two traces faster, and where does its time differ? */
#ifndef REPORT_DIFF_VERDICT_H
#define REPORT_DIFF_VERDICT_H

#include "report.h"

/* Prints "Verdict: ...". noise: smaller relative differences are ignored. mark: text after it. */
void diff_verdict_print(struct report *const r[2], const struct term *term, double noise,
			const char *mark);
/* Writes "speed". */
void diff_verdict_json(struct report *const r[2], struct json *j, double noise);

#endif /* REPORT_DIFF_VERDICT_H */
