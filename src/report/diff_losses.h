/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is missing in two reports that are compared, and in the comparison. After report__finish(),
 * with lost.of_report false. */
#ifndef REPORT_DIFF_LOSSES_H
#define REPORT_DIFF_LOSSES_H

#include "report.h"

/* The reports reached a limit. */
bool diff_losses_of_limits(void);
bool diff_losses_any(struct report *const r[2]);
void diff_losses_print(struct report *const r[2], const struct term *term);
/* "complete" and "lost". */
void diff_losses_json(struct report *const r[2], struct json *j);

#endif /* REPORT_DIFF_LOSSES_H */
