/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Losses of two compared reports, and of the comparison. Valid after report__finish(), with
 * lost.of_report false. */
#ifndef REPORT_DIFF_LOSSES_H
#define REPORT_DIFF_LOSSES_H

#include "report.h"

/* Returns whether the reports reached a memory limit. */
bool diff_losses_of_limits(void);
bool diff_losses_any(struct report *const r[2]);
void diff_losses_print(struct report *const r[2], const struct term *term);
/* Writes "complete" and "lost". */
void diff_losses_json(struct report *const r[2], struct json *j);

#endif /* REPORT_DIFF_LOSSES_H */
