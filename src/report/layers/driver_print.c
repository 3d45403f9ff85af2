/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints requests to the kernel driver, as JSON and as text. */
#include "driver_priv.h"
#include "report/section.h"

static unsigned xid_of(const struct dr_row *row)
{
	return (uintptr_t)row->other;
}

#define SECTION_STATE struct driver_calls
#define SECTION_ROWS  "report/layers/driver.section"
#include "report/section_rows.h"

void driver_print(const void *a, const struct term *term)
{
	const struct driver_calls *d = a;

	if (!d->ioctl_cnt && !d->sched_cnt && !d->xid_cnt)
		return;
	term_section(term, "Kernel driver", "%s in %s, %s of them outside CUDA calls",
		     HUMAN_NOUNS(d->ioctl_cnt, "ioctl"), HUMAN_TIME(d->total_ns),
		     HUMAN_COUNT(d->outside_cnt));
	section_print(d->r, &driver_table, d, d, "commands", 0, term);
	section_print(d->r, &driver_table, d, d, "calls", 0, term);
	for (unsigned i = 0; i < d->sched.keys.cnt; i++) {
		const struct dr_row *row = &d->sched.rows[i];

		term_para(term, "scheduler: %s x %s%s%s", HUMAN_COUNT(row->cnt), row->name,
			  row->text ? ", " : "", row->text ? row->text : "");
	}
	for (unsigned i = 0; i < d->xids.keys.cnt; i++) {
		unsigned number = xid_of(&d->xids.rows[i]);
		const char *meaning = nv_xid_text(number);

		term_para(term, "Xid %u: %s x %s", number, HUMAN_COUNT(d->xids.rows[i].cnt),
			  meaning ? meaning : "unknown");
	}
}
