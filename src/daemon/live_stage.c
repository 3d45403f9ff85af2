/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "live_stage.h"

#include "model/call.h"

static void launched(struct live_stage *s, bool marks)
{
	if (!s->known || s->stage < STAGE_WARMUP)
		s->stage = marks && !s->iteration && s->known ? STAGE_WARMUP : STAGE_INFERENCE;
	s->known = true;
}

void live_stage__begin(struct live_stage *s, const struct trace_event *ev, bool marks)
{
	if (ev->fn->op == OP_INIT && !s->known)
		*s = (struct live_stage){.known = true, .stage = STAGE_INIT};
	if (call_launches_any(ev) || (s->launch_ns && ev->start_ns > s->launch_ns))
		launched(s, marks);
}

/* Groups grow with the number of iterations in the last interval, and in this one. */
static void set_group(struct live_stage *s, uint32_t interval)
{
	if (!s->group || s->interval != interval) {
		s->group = 1;
		while (s->interval + 1 == interval && s->ended > LIVE_GROUPS * s->group)
			s->group *= 2;
		s->interval = interval;
		s->ended = 0;
	}
	if (++s->ended > LIVE_GROUPS * s->group)
		s->group *= 2;
}

void live_stage__end(struct live_stage *s, const struct trace_event *ev, bool ends,
		     uint32_t interval)
{
	if (s->known && s->stage == STAGE_INIT && call_makes_context(ev))
		s->stage = STAGE_LOAD;
	if (!ends || !event_returned(ev) || (s->tid && s->tid != ev->tid))
		return;
	s->tid = ev->tid;
	s->iteration++;
	s->known = true;
	s->stage = STAGE_INFERENCE;
	set_group(s, interval);
}

void live_stage__counted(struct live_stage *s, const struct api_fn *fn, uint64_t read_ns,
			 bool marks)
{
	if (s->launch_ns && read_ns > s->launch_ns)
		launched(s, marks);
	if (op_does(fn->op, DOES_LAUNCH | DOES_LAUNCH_GRAPH) && !s->launch_ns)
		s->launch_ns = read_ns;
}
