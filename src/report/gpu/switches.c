/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-ctxsw: how long each process had the GPUs, and the time for switches. */
#include "switches.h"

#include <stdlib.h>

static void *switches__new(struct report *r)
{
	struct residency *s = calloc(1, sizeof(*s));

	if (s)
		s->info = r->info;
	return s;
}

static void switches_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_CTXSW)
		residency__event(a, ev);
}

static void switches_finish(void *a)
{
	residency__sort(a);
}

static void switches_print(const void *a, const struct term *term)
{
	residency__print(a, term);
}

static void switches__free(void *a)
{
	residency__free(a);
	free(a);
}

const struct residency *switches_result(const struct report *r)
{
	return r->an[AN_SWITCHES];
}

const struct analysis_ops switches_ops = {
	.name = "context_switches",
	.new = switches__new,
	.event = switches_event,
	.finish = switches_finish,
	.section = &residency_table,
	.print = switches_print,
	.free = switches__free,
};
