/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's part about calls that were counted and not recorded. */
#include "summary_priv.h"

#include "text/table.h"

void summary_print_counted(const struct summary_view *v, const struct term *term)
{
	const struct trace_end *end = v->end;
	char calls[CELL_SZ], fns[CELL_SZ], levels[CELL_SZ];

	if (end->level_cnt) {
		human_count(levels, end->level_cnt);
		term_section(term, "Level changes",
			     "%s change%s of how a function is recorded (--max-overhead)", levels,
			     plural(end->level_cnt));
	}
	if (!end->count_cnt)
		return;
	human_count(calls, end->stats[CT_STAT_COUNTED]);
	human_count(fns, end->count_cnt);
	term_section(term, "Counted only", "%s call%s of %s function%s, not in the tables above",
		     calls, plural(end->stats[CT_STAT_COUNTED]), fns, plural(end->count_cnt));
	summary_print_table(v, &summary_table, "counted", summary_top(term), term);
}
