/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary's part about calls that were counted and not recorded. */
#include "summary_priv.h"

#include "text/json.h"
#include "text/table.h"

static void print_row(struct table *t, const struct trace_count *c)
{
	struct table_row *r = table__row(t, c->fn->symbol);

	human_count(r->cell[0], c->calls + c->entered);
	if (!c->calls)
		return;
	human_time(r->cell[1], c->total_ns);
	human_time(r->cell[2], (double)c->total_ns / c->calls);
	human_time(r->cell[3], c->max_ns);
	if (c->errors)
		human_count(r->cell[4], c->errors);
	r->red = c->errors;
}

void summary_print_counted(const struct term *term, const struct trace_end *end)
{
	char calls[CELL_SZ], fns[CELL_SZ], levels[CELL_SZ];
	struct table t;

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
	table__init(&t, "calls|time|mean|max|errors|function");
	for (unsigned i = 0; i < end->count_cnt && (int)i < summary_top(term); i++)
		print_row(&t, &end->counts[i]);
	table__print(&t, term);
}

void summary_json_counted(struct json *j, const struct trace_end *end)
{
	json_u64(j, "counted_calls", end->stats[CT_STAT_COUNTED]);
	json_open_array(j, "counted");
	for (unsigned i = 0; i < end->count_cnt; i++) {
		const struct trace_count *c = &end->counts[i];

		json_open(j, NULL);
		json_str(j, "symbol", c->fn->symbol);
		json_u64(j, "calls", c->calls + c->entered);
		json_u64(j, "entry_only", c->entered);
		json_u64(j, "errors", c->errors);
		json_f64(j, "ms", c->total_ns / 1e6);
		json_f64(j, "max_us", c->max_ns / 1e3);
		json_close(j);
	}
	json_close_array(j);
	json_u64(j, "level_changes", end->level_cnt);
}
