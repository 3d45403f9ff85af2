/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "wait_watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "event_copy.h"
#include "report/failure/gpu_share.h"
#include "util/memlimit.h"

struct wait_watch {
	struct event_copies *copies;
	struct report *report; /* NULL: only the use of the GPU is known */
	struct trace_end end;
	struct gpu_share gpu;
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

struct wait_watch *wait_watch__new_of_gpu(void)
{
	return calloc(1, sizeof(struct wait_watch));
}

void wait_watch__free(struct wait_watch *w)
{
	if (!w)
		return;
	if (w->report)
		report__free(w->report);
	event_copies__free(w->copies);
	gpu_share__free(&w->gpu);
	free(w);
}

void wait_watch__event(struct wait_watch *w, const struct trace_event *ev)
{
	gpu_share__event(&w->gpu, ev);
	if (ev->kind == EVENT_STACK || !w->report)
		return;
	memlimit_set_owner(w, ev->pid);
	report__event(w->report, event_copy(w->copies, ev));
}

/* Neither the work nor the arguments of the call are known. */
static void explain_call(const struct wait_watch *w, const struct trace_event *wait,
			 struct failure_wait *res)
{
	struct gpu_load load = gpu_share_load(&w->gpu, wait->pid, wait->start_ns);
	struct gpu_residents residents;
	char share[512];

	gpu_share_residents(&w->gpu, wait->pid, wait->start_ns, wait->end_ns, &residents);
	gpu_share_text(&load, &residents, share, sizeof(share));
	*res = (struct failure_wait){0};
	snprintf(res->verdict, sizeof(res->verdict), "%s has not returned for %.1f s%s",
		 wait->fn->name, event_duration_ns(wait) / 1e9, share);
}

void wait_watch__explain(struct wait_watch *w, const struct trace_event *wait,
			 struct failure_wait *res)
{
	if (!w->report || !wait->word_cnt) {
		explain_call(w, wait, res);
		return;
	}
	memlimit_set_owner(w, wait->pid);
	failure_wait(w->report, wait, res);
}
