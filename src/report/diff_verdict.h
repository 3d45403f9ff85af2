/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verdict: is the second of two traces faster, and where does its time differ? */
#ifndef REPORT_DIFF_VERDICT_H
#define REPORT_DIFF_VERDICT_H

#include "report.h"
#include "report/time/stage.h"

enum speed_verdict { SPEED_UNKNOWN, SPEED_SAME, SPEED_FASTER, SPEED_SLOWER };
const char *speed_verdict_name(enum speed_verdict verdict);

struct speed {
	enum speed_verdict verdict;
	const char *of; /* what is compared */
	double ns[2];
	struct speed_place {
		const char *what, *section; /* section of a report with details */
		double ns[2];
	} places[PART_CNT];
	unsigned place_cnt; /* the first of them differ most */
};

/* noise: smaller relative differences are ignored. */
void diff_speed(struct report *const r[2], double noise, struct speed *s);
/* Prints "Verdict: ...". mark: text after it. */
void diff_verdict_print(const struct speed *s, const struct term *term, const char *mark);

#endif /* REPORT_DIFF_VERDICT_H */
