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
	if (c->open_cnt && !--c->open_cnt)
		c->parts[(c->cnt - 1) % CAPTURE_PARTS].to_ns = ns;
}

/* Returns the starts of a process, or those of the processes beyond the table. add: in a new row,
 * if there is space. */
static unsigned *starts_of(struct capture_range *c, uint32_t pid, bool add)
{
	unsigned unused = CAPTURE_PROCS;

	for (unsigned i = 0; i < CAPTURE_PROCS; i++) {
		if (c->procs[i].open_cnt && c->procs[i].pid == pid)
			return &c->procs[i].open_cnt;
		if (add && !c->procs[i].open_cnt && unused == CAPTURE_PROCS)
			unused = i;
	}
	if (unused < CAPTURE_PROCS)
		c->procs[unused].pid = pid;
	return &c->procs[unused].open_cnt;
}

/* A process that ends, or runs another program, will not call cuProfilerStop(). */
static void on_process(struct capture_range *c, const struct trace_event *ev)
{
	for (unsigned i = 0; i < CAPTURE_PROCS && strcmp(ev->op, "fork"); i++)
		for (; c->procs[i].pid == ev->pid && c->procs[i].open_cnt; c->procs[i].open_cnt--)
			close_part(c, ev->end_ns);
}

void capture_range__event(struct capture_range *c, const struct trace_event *ev)
{
	unsigned *starts;

	if (c->kind != CAPTURE_PROFILER)
		return;
	if (ev->kind == EVENT_PROCESS)
		on_process(c, ev);
	if (ev->kind != EVENT_CALL || !ev->fn || ev->is_error)
		return;
	if (!strcmp(ev->fn->name, "cuProfilerStart")) {
		++*starts_of(c, ev->pid, true);
		open_part(c, ev->start_ns);
	} else if (!strcmp(ev->fn->name, "cuProfilerStop")) {
		starts = starts_of(c, ev->pid, false);
		/* A stop without a start is ignored, as by the driver. */
		if (*starts) {
			--*starts;
			close_part(c, ev->end_ns);
		}
	}
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
