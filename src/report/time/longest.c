/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The longest calls that are in no other call. */
#include "report/report.h"

#include <stdlib.h>

#include "model/call.h"
#include "report/collect.h"

#define LIST_MAX 1000

struct longest_row {
	uint64_t start_ns, ns, id;
	const char *name, *kernel;
	uint32_t pid, tid;
	enum event_type type;
	bool unfinished;
};

struct longest {
	struct report *r;
	unsigned cnt, max;
	struct longest_row rows[LIST_MAX]; /* longest first */
};

static void *longest__new(struct report *r)
{
	struct longest *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->r = r;
	l->max = r->opts.top < LIST_MAX ? r->opts.top : LIST_MAX;
	return l;
}

static bool precedes(const struct trace_event *ev, const struct longest_row *row)
{
	return call_precedes(ev, event_duration_ns(ev), row->ns, row->start_ns, row->id);
}

static void longest_event(void *a, const struct trace_event *ev)
{
	struct longest *l = a;
	uint64_t ns = event_duration_ns(ev);
	unsigned i = l->cnt;

	if (!l->max || (i == l->max && !precedes(ev, &l->rows[i - 1])) || !call_took_time(ev) ||
	    !call_is_outer(ev))
		return;
	if (i < l->max)
		l->cnt++;
	else
		i--;
	for (; i && precedes(ev, &l->rows[i - 1]); i--)
		l->rows[i] = l->rows[i - 1];
	l->rows[i] = (struct longest_row){ev->start_ns,	     ns,      ev->id,  ev->fn->name,
					  ev->launch.kernel, ev->pid, ev->tid, ev->type,
					  ev->unfinished};
}

static void longest_json(const void *a, struct json *j)
{
	const struct longest *l = a;

	json_open_array(j, "longest");
	for (unsigned i = 0; i < l->cnt; i++) {
		const struct longest_row *row = &l->rows[i];

		json_open(j, NULL);
		report_json_ts(l->r, j, "ts", row->start_ns);
		json_u64(j, "id", row->id);
		json_str(j, "name", row->name);
		if (row->kernel)
			json_str(j, "kernel", row->kernel);
		json_u64(j, "duration_ns", row->ns);
		if (row->unfinished)
			json_bool(j, "unfinished", true);
		json_u64(j, "pid", row->pid);
		json_u64(j, "tid", row->tid);
		json_str(j, "type", event_type_name(row->type));
		json_close(j);
	}
	json_close_array(j);
}

static void longest_print(const void *a, const struct term *term)
{
	const struct longest *l = a;
	unsigned top = report_rows(term, l->r->opts.top);
	char names[TABLE_ROWS][256];
	struct table_row *row;
	struct table t;

	if (!l->cnt)
		return;
	term_section(term, "Longest calls", "with the id that they have in the trace");
	table__init(&t, "at|time|id|call");
	for (unsigned i = 0; i < l->cnt && i < top; i++) {
		const struct longest_row *x = &l->rows[i];

		snprintf(names[i], sizeof(names[i]), "%s%s%s%s", x->name,
			 x->unfinished ? " (had not returned)" : "", x->kernel ? " " : "",
			 x->kernel ? x->kernel : "");
		row = table__row(&t, names[i]);
		human_time(row->cell[0], (double)x->start_ns - (double)l->r->base_ns);
		human_time(row->cell[1], x->ns);
		snprintf(row->cell[2], CELL_SZ, "%llu", (unsigned long long)x->id);
	}
	table__print(&t, term);
}

static void longest__free(void *a)
{
	free(a);
}

const struct analysis_ops longest_ops = {
	.name = "longest",
	.new = longest__new,
	.event = longest_event,
	.json = longest_json,
	.print = longest_print,
	.free = longest__free,
};
