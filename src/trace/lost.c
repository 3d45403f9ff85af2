/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reports losses in the trace where they occur, not only at the end. */
#include "session.h"

#include "util/log.h"
#include "util/out.h"
#include "util/reader.h"

#include <string.h>

static void report_lost(struct session *s, uint64_t now, const char *where, uint64_t cnt,
			const char *why)
{
	struct trace_event ev = tracer_event("lost", where, now);

	ev.tracer.events = cnt;
	ev.tracer.why = why;
	session__event(s, &ev);
}

static void report_drops(struct session *s, uint64_t now, struct source *source)
{
	uint64_t cnt = tracer__look_for_losses(&s->t, source);

	if (cnt)
		report_lost(s, now, source->ops->name, cnt, source->ops->why);
}

void session__report_lost(struct session *s, uint64_t now, bool at_end)
{
	/* Adding up the counters of all threads takes time, so this runs only when there may be a
	 * loss. Drops while a source was being drained are found later. */
	for (unsigned i = 0; i < s->t.sources.cnt; i++)
		if (source__was_full(s->t.sources.of[i]) || at_end)
			report_drops(s, now, s->t.sources.of[i]);
	for (unsigned i = 0; i < s->sink_cnt; i++) {
		struct out *o = s->sinks[i]->out;
		uint64_t cnt = o->is_file ? 0 : o->lost - s->lost_reported[i];

		/* While the output is stuck, this line would be lost too. Files are never slow. */
		if (!cnt || o->stuck || o->failed)
			continue;
		s->lost_reported[i] = o->lost;
		report_lost(s, now, o->name, cnt, "its reader was too slow");
	}
}

/* If no process has connected, it is unknown whether one called CUDA. */
#define UNSEEN                                                                                       \
	"no process has loaded libcuda and the in-process library: programs that are "               \
	"started with an empty environment (env -i), are set-user-ID, or statically linked are not " \
	"traced in-process; use sudo cudatrace --probe=uprobe -- COMMAND"

const char *session__unseen(const struct session *s)
{
	if (s->missed_cnt)
		return "a library of a process could not be traced: library lines with op failed "
		       "give the reason";
	if (reader__is_gone())
		return "cudatrace-read was ended: libraries that were loaded later may be missing";
	return s->probe == PROBE_INJECT && s->cmd.pid && !s->lib_cnt ? UNSEEN : NULL;
}

void session__warn_no_call(const struct session *s)
{
	if (s->o->capture && !s->capture.cnt)
		warn("--capture-range: no process %s%s%s: the trace has no calls",
		     s->o->capture == CAPTURE_NVTX ? "began the NVTX range '"
						   : "called cuProfilerStart",
		     s->o->capture_name ?: "", s->o->capture == CAPTURE_NVTX ? "'" : "");
	if (!s->cmd.pid || s->end.stats[CT_STAT_ENTRIES] || s->o->quiet)
		return;
	if (!s->cmd.exited || (s->end.reason && strcmp(s->end.reason, "command exited")))
		info("%s made no CUDA driver call before the trace ended", s->o->argv[0]);
	else if (s->end.unseen)
		info("%s made no CUDA driver call that is traced: %s", s->o->argv[0],
		     s->end.unseen);
	else
		info("%s made no CUDA driver call%s", s->o->argv[0],
		     s->lib_cnt || attach__lib_cnt(s->t.att) ? " that is traced"
							     : ": it never loaded libcuda");
}
