/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --gpu-ctxsw: how long each process had the GPUs, and the time for switches. */
#include "switches.h"

#include <stdlib.h>

struct switches {
	struct report *r;
	struct residency res;
};

static void *switches__new(struct report *r)
{
	struct switches *s = calloc(1, sizeof(*s));

	if (s)
		s->r = r;
	return s;
}

static void switches_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_CTXSW)
		residency__event(&((struct switches *)a)->res, ev);
}

static void switches_finish(void *a)
{
	residency__sort(&((struct switches *)a)->res);
}

static void switches_json(const void *a, struct json *j)
{
	const struct switches *s = a;

	residency__json(&s->res, j, s->r->info);
}

static void switches_print(const void *a, const struct term *term)
{
	const struct switches *s = a;

	residency__print(&s->res, term, s->r->info);
}

static void switches__free(void *a)
{
	residency__free(&((struct switches *)a)->res);
	free(a);
}

const struct residency *switches_result(const struct report *r)
{
	const struct switches *s = r->an[AN_SWITCHES];

	return s ? &s->res : NULL;
}

const struct analysis_ops switches_ops = {
	.name = "context_switches",
	.new = switches__new,
	.event = switches_event,
	.finish = switches_finish,
	.json = switches_json,
	.print = switches_print,
	.free = switches__free,
};
