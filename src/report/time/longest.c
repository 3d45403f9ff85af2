/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The longest outermost calls. */
#include "report/section.h"

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
	    (ev->entry_only && !ev->unfinished) || !call_is_outer(ev))
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

static const char *call_text(char buf[SECTION_BUF], const struct longest_row *x)
{
	snprintf(buf, SECTION_BUF, "%s%s%s%s", x->name, x->unfinished ? " (had not returned)" : "",
		 x->kernel ? " " : "", x->kernel ? x->kernel : "");
	return buf;
}

#define SECTION_STATE struct longest
#define SECTION_ROWS  "report/time/longest.section"
#include "report/section_rows.h"

static void longest_print(const void *a, const struct term *term)
{
	const struct longest *l = a;

	if (!l->cnt)
		return;
	term_section(term, "Longest calls", "with their id in the trace");
	section_print(l->r, &longest_table, l, l, "longest", 0, term);
}

const struct analysis_ops longest_ops = {
	.name = "longest",
	.new = longest__new,
	.event = longest_event,
	.section = &longest_table,
	.is_list = true,
	.print = longest_print,
};
