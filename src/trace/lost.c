/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is lost is said where it is missing, not at the end alone. */
#include "session.h"

#include "util/out.h"

#include <unistd.h>

static void tell(struct session *s, uint64_t now, const char *where, uint64_t cnt, const char *why)
{
	struct event ev = {
		.kind = EVENT_TRACER,
		.type = TYPE_TRACER,
		.op = "lost",
		.name = where,
		.pid = getpid(),
		.tid = getpid(),
		.comm = "cudatrace",
		.start_ns = now,
		.end_ns = now,
		.tracer = {.events = cnt, .why = why},
	};

	session__event(s, &ev);
}

static void tell_drops(struct session *s, uint64_t now)
{
	struct ct_totals sum;
	uint64_t cnt = 0, before = s->drops_told;

	attach__totals(s->t.att, &sum);
	for (int i = 0; i < CT_DROP_CNT; i++)
		cnt += sum.drops[i];
	if (cnt <= before)
		return;
	s->drops_told = cnt;
	tell(s, now, "ring", cnt - before,
	     "more came than was read; a larger --buffer-size or fewer functions (-e) help");
}

void session__tell_lost(struct session *s, uint64_t now, bool at_end)
{
	/* To add up the counters of all threads takes time: only when there may be something. What
	 * was dropped while the ring was being emptied is found later. */
	if (ring__was_full(s->t.ring) || at_end)
		tell_drops(s, now);
	for (unsigned i = 0; i < s->sink_cnt; i++) {
		struct out *o = s->sinks[i]->out;
		uint64_t cnt = o->is_file ? 0 : o->lost - s->lost_told[i];

		/* While it is stuck, this would be lost too. A file is never slow. */
		if (!cnt || o->stuck || o->failed)
			continue;
		s->lost_told[i] = o->lost;
		tell(s, now, o->name, cnt, "its reader was too slow");
	}
}
