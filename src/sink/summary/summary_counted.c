/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's part about calls that were counted and not recorded. */
#include "summary_priv.h"

#include "text/table.h"

void summary_print_counted(const struct summary_view *v, const struct term *term)
{
	const struct trace_end *end = v->end;

	if (end->level_cnt) {
		term_section(term, "Level changes",
			     "%s in how a function is recorded (--max-overhead)",
			     HUMAN_NOUNS(end->level_cnt, "change"));
	}
	if (!end->count_cnt)
		return;
	term_section(term, "Counted only", "%s of %s, not in the tables above",
		     HUMAN_NOUNS(end->stats[CT_STAT_COUNTED], "call"),
		     HUMAN_NOUNS(end->count_cnt, "function"));
	summary_print_table(v, &summary_table, "counted", summary_top(term), term);
}
