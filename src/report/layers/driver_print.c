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
	char count[CELL_SZ], time[CELL_SZ], outside[CELL_SZ];

	if (!d->ioctl_cnt && !d->sched_cnt && !d->xid_cnt)
		return;
	human_count(count, d->ioctl_cnt);
	human_time(time, d->total_ns);
	human_count(outside, d->outside_cnt);
	term_section(term, "Kernel driver", "%s ioctl%s in %s, %s of them outside CUDA calls",
		     count, plural(d->ioctl_cnt), time, outside);
	section_print(d->r, &driver_table, d, d, "commands", 0, term);
	section_print(d->r, &driver_table, d, d, "calls", 0, term);
	for (unsigned i = 0; i < d->sched.keys.cnt; i++) {
		const struct dr_row *row = &d->sched.rows[i];

		human_count(count, row->cnt);
		term_para(term, "scheduler: %s x %s%s%s", count, row->name, row->text ? ", " : "",
			  row->text ? row->text : "");
	}
	for (unsigned i = 0; i < d->xids.keys.cnt; i++) {
		unsigned number = xid_of(&d->xids.rows[i]);
		const char *meaning = nv_xid_text(number);

		human_count(count, d->xids.rows[i].cnt);
		term_para(term, "Xid %u: %s x %s", number, count, meaning ? meaning : "unknown");
	}
}
