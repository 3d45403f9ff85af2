/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "wait_watch.h"

#include <stdlib.h>

#include "event_copy.h"
#include "util/memlimit.h"

struct wait_watch {
	struct event_copies *copies;
	struct report *report;
	struct trace_end end;
};

struct wait_watch *wait_watch__new(const struct trace_info *info, bool filtered)
{
	const struct report_opts opts = {.analyses = 1ull << AN_MEMORY | 1ull << AN_FAILURE};
	struct wait_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->copies = event_copies__new();
	w->report = w->copies ? report__new(&opts, info) : NULL;
	if (!w->report) {
		wait_watch__free(w);
		return NULL;
	}
	w->end.stats[CT_STAT_FILTERED] = filtered;
	w->report->end = &w->end;
	return w;
}

void wait_watch__free(struct wait_watch *w)
{
	if (!w)
		return;
	report__free(w->report);
	event_copies__free(w->copies);
	free(w);
}

void wait_watch__event(struct wait_watch *w, const struct trace_event *ev)
{
	if (ev->kind == EVENT_STACK)
		return;
	memlimit_set_owner(w, ev->pid);
	report__event(w->report, event_copy(w->copies, ev));
}

void wait_watch__explain(struct wait_watch *w, const struct trace_event *wait,
			 struct failure_wait *res)
{
	memlimit_set_owner(w, wait->pid);
	failure_wait(w->report, wait, res);
}
