/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A report of a trace made while tracing: written at the end, in the form of its file's name
 * (report_format_by_path()). */
#include "event_copy.h"
#include "sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "report/format.h"
#include "util/log.h"
#include "util/out.h"
#include "util/memlimit.h"

struct live_report {
	struct sink s;
	struct report *report;
	struct event_copies *copies;
};

static int live_open(struct sink *s, const struct trace_info *info)
{
	struct live_report *l = (struct live_report *)s;
	const char *form = report_format_by_path(s->out->name)->name;
	struct report_opts opts = {
		.top = REPORT_TOP_DEFAULT,
		.full = true,
		.html = !strcmp(form, "html"),
		.pprof = !strcmp(form, "pprof"),
	};

	l->copies = event_copies__new();
	l->report = l->copies ? report__new(&opts, info) : NULL;
	if (l->report)
		return 0;
	err("cannot write a report: out of memory: close other programs");
	return -ENOMEM;
}

static void live_event(struct sink *s, const struct trace_event *ev)
{
	struct live_report *l = (struct live_report *)s;

	/* A definition is not an event of its own: the stack comes with the first call that has it.
	 */
	if (ev->kind == EVENT_STACK)
		return;
	memlimit_set_owner(l, ev->pid);
	report__event(l->report, event_copy(l->copies, ev));
}

static void live_end(struct sink *s, const struct trace_end *end)
{
	struct live_report *l = (struct live_report *)s;
	struct term term = term_of_fd(s->out->fd);

	report__finish(l->report, end, NULL, 0);
	if (report_format_by_path(s->out->name)->write(l->report, s->out, &term)) {
		out__rollback(s->out);
		s->lost_cnt = s->event_cnt;
		err("cannot write the report to %s: out of memory: close other programs",
		    s->out->name);
	}
	out__commit(s->out);
}

static void live_close(struct sink *s)
{
	struct live_report *l = (struct live_report *)s;

	report__free(l->report);
	event_copies__free(l->copies);
}

const struct sink_ops report_sink_ops = {
	.size = sizeof(struct live_report),
	.open = live_open,
	.event = live_event,
	.end = live_end,
	.close = live_close,
};
