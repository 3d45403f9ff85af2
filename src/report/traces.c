/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Several traces in one report: start and end of each. */
#include "collect.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct report_trace *trace_of(const struct report *r, unsigned number)
{
	unsigned i = number - r->info->number;

	return i < r->trace_cnt ? &r->traces[i] : NULL;
}

void report__also(struct report *r, const char *path, const struct trace_info *info)
{
	struct report_trace *t = trace_of(r, info->number), *grown = NULL;

	r->args_redacted |= info->redacted && !strcmp(info->redacted, "arguments");
	if (!t) {
		if (info->number != r->info->number + r->trace_cnt ||
		    r->trace_cnt == REPORT_TRACES_MAX)
			memlimit_reject(MEMLIMIT_TRACES);
		else
			grown = grow(r->traces, &r->trace_cap, r->trace_cnt + 1, sizeof(*grown),
				     MEMLIMIT_TRACES);
		if (!grown)
			return;
		r->traces = grown;
		t = &grown[r->trace_cnt++];
		t->info = info;
		t->last_ns = info->base_ns;
	}
	if (info->base_ns + info->begin_ns < r->begin_ns)
		r->begin_ns = info->base_ns + info->begin_ns;
	t->path = t->path ?: path;
	t->has_ended = false;
}

void report__ended(struct report *r, const struct trace_info *info, const struct trace_end *end)
{
	struct report_trace *t = trace_of(r, info->number);

	r->ended_cnt++;
	losses__end(&r->lost, end);
	if (!t)
		return;
	t->has_ended = true;
	if (end->end_ns > t->last_ns)
		t->last_ns = end->end_ns;
}

void report_traces_event(struct report *r, const struct trace_event *ev)
{
	struct report_trace *t = trace_of(r, ev->trace);

	if (t && ev->end_ns > t->last_ns)
		t->last_ns = ev->end_ns;
}

uint64_t report_until(const struct report *r, unsigned trace)
{
	const struct report_trace *t = trace_of(r, trace);

	if (t && r->trace_cnt > 1 && (t->has_ended || r->is_over))
		return t->last_ns;
	return r->is_over ? r->last_ns : UINT64_MAX;
}

static const char *place_name(enum trace_alignment place)
{
	static const char *const names[] = {
		[TRACE_FIRST] = "first",
		[TRACE_SAME_CLOCK] = "same",
		[TRACE_BY_WALL] = "wall",
		[TRACE_BEHIND] = "none",
	};

	return names[place];
}

/* The first trace with the same clock. */
static unsigned same_as(const struct report *r, const struct report_trace *t)
{
	unsigned i = 0;

	while (&r->traces[i] != t && r->traces[i].info->clock != t->info->clock)
		i++;
	return i;
}

void report_traces_json(const struct report *r, struct json *j)
{
	if (r->trace_cnt < 2)
		return;
	json_open_array(j, "traces");
	for (unsigned i = 0; i < r->trace_cnt; i++) {
		const struct report_trace *t = &r->traces[i];

		json_open(j, NULL);
		if (t->path)
			json_str(j, "path", t->path);
		json_str(j, "host", t->info->hostname ?: "");
		report_json_wall_time(j, t->info->wall_ns);
		json_str(j, "clock", place_name(t->info->place));
		if (t->info->place == TRACE_SAME_CLOCK)
			json_u64(j, "same_as", same_as(r, t));
		report_json_ts(r, j, "first_ts", t->info->base_ns);
		report_json_ts(r, j, "last_ts", t->last_ns);
		json_u64(j, "pid_offset", t->info->pid_add);
		json_close(j);
	}
	json_close_array(j);
}

void report_traces_print(const struct report *r, const struct term *term)
{
	unsigned placed[TRACE_ALIGN_CNT] = {0};
	struct table t;

	if (r->trace_cnt < 2)
		return;
	term_section(term, "Traces", "%u, in one report", r->trace_cnt);
	table__init(&t, "trace|from|to|clock|process ids|file");
	for (unsigned i = 0; i < r->trace_cnt; i++) {
		const struct report_trace *x = &r->traces[i];
		struct table_row *row = table__row(&t, x->path ?: "");

		placed[x->info->place]++;
		if (!row)
			continue;
		snprintf(row->cell[0], CELL_SZ, "%u", i);
		human_time(row->cell[1],
			   x->info->base_ns > r->base_ns ? x->info->base_ns - r->base_ns : 0);
		human_time(row->cell[2], x->last_ns > r->base_ns ? x->last_ns - r->base_ns : 0);
		snprintf(row->cell[3], CELL_SZ, "%s", place_name(x->info->place));
		if (x->info->place == TRACE_SAME_CLOCK)
			snprintf(row->cell[3], CELL_SZ, "same as %u", same_as(r, x));
		if (x->info->pid_add)
			snprintf(row->cell[4], CELL_SZ, "+%" PRIu32, x->info->pid_add);
	}
	table__print(&t, term);
	if (r->trace_cnt > TABLE_ROWS)
		term_para(term, "There are more; the JSON form has %u.", r->trace_cnt);
	if (placed[TRACE_SAME_CLOCK])
		term_para(
			term,
			"Clock same: of the same boot as that trace, so times of both compare to the "
			"nanosecond.");
	if (placed[TRACE_BY_WALL])
		term_para(term, "Clock wall: of another machine or boot. Its times are as right as "
				"the wall clocks agree, which nothing here can check (with NTP: "
				"milliseconds); so ranks of different clocks are not compared.");
	if (placed[TRACE_BEHIND])
		term_para(term,
			  "Clock none: not of that time, or it is not known when; it is shown "
			  "right behind what came before.");
}
