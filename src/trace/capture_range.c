/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "capture_range.h"

#include <string.h>

#include "model/event.h"

static void open_part(struct capture_range *c, uint64_t ns)
{
	unsigned at = c->cnt % CAPTURE_PARTS;

	if (c->open_cnt++)
		return;
	c->parts[at].from_ns = ns;
	c->parts[at].to_ns = UINT64_MAX;
	c->cnt++;
}

static void close_part(struct capture_range *c, uint64_t ns)
{
	/* A stop without a start is ignored, as by the driver. */
	if (c->open_cnt && !--c->open_cnt)
		c->parts[(c->cnt - 1) % CAPTURE_PARTS].to_ns = ns;
}

void capture_range__event(struct capture_range *c, const struct trace_event *ev)
{
	if (c->kind != CAPTURE_PROFILER || ev->kind != EVENT_CALL || !ev->fn || ev->is_error)
		return;
	if (!strcmp(ev->fn->name, "cuProfilerStart"))
		open_part(c, ev->start_ns);
	else if (!strcmp(ev->fn->name, "cuProfilerStop"))
		close_part(c, ev->end_ns);
}

void capture_range__nvtx(struct capture_range *c, const char *text, uint64_t ns, bool begins)
{
	if (c->kind != CAPTURE_NVTX || !text || strcmp(text, c->name))
		return;
	if (begins)
		open_part(c, ns);
	else
		close_part(c, ns);
}

/* Later lines refer to these, or are wrong without them. */
static bool is_context(const struct trace_event *ev)
{
	switch (ev->kind) {
	case EVENT_PROCESS:
	case EVENT_JOB:
	case EVENT_LIBRARY:
	case EVENT_XID:
	case EVENT_GPU_DEVICE:
	case EVENT_TRACER:
	case EVENT_STACK:
		return true;
	default:
		return false;
	}
}

bool capture_range__has(const struct capture_range *c, const struct trace_event *ev)
{
	unsigned kept = c->cnt < CAPTURE_PARTS ? c->cnt : CAPTURE_PARTS;

	if (is_context(ev))
		return true;
	if (ev->start_ns < c->start_ns)
		return false;
	for (unsigned i = 0; i < kept; i++)
		if (ev->start_ns >= c->parts[i].from_ns && ev->start_ns <= c->parts[i].to_ns)
			return true;
	return c->kind == CAPTURE_NONE;
}
