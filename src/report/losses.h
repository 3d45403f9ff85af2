/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is missing, as JSON (losses.section); and the losses of a diff, valid after report__finish()
 * of both reports, with lost.of_report false. */
#ifndef REPORT_LOSSES_H
#define REPORT_LOSSES_H

#include "report.h"

/* The state of its rows: losses of one report, or of several by name. */
struct losses_view {
	struct losses_of {
		const struct losses *l;
		const char *trace; /* NULL: none */
	} of[3];
	unsigned cnt;
};
extern const struct section_table loss_table,
	loss_chosen_table; /* rows of "lost" and "chosen", by number */

/* Writes "complete", "lost" and "chosen". */
void losses_json(const struct losses *l, struct json *j);
/* Writes "rejected", unless nothing was. */
void rejected_json(struct json *j);

/* Returns whether the reports reached a memory limit. */
bool diff_losses_of_limits(void);
bool diff_losses_any(struct report *const r[2]);
void diff_losses_print(struct report *const r[2], const struct term *term);
/* Those of both reports and of their comparison; they must outlive it. */
struct losses_view diff_losses(struct report *const r[2]);

#endif /* REPORT_LOSSES_H */
