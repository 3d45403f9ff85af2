/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "capture_range.h"

#include <stdlib.h>
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

/* A start while profiling is on, and a stop while it is off, have no effect (cudaProfiler.h of CUDA
 * 13.0). */
static void profiler_start(struct capture_range *c, uint32_t pid, uint64_t ns)
{
	uint32_t *pids;

	for (unsigned i = 0; i < c->open_cnt; i++)
		if (c->pids[i] == pid)
			return;
	pids = reallocarray(c->pids, c->open_cnt + 1, sizeof(*pids));
	if (!pids)
		return;
	c->pids = pids;
	pids[c->open_cnt] = pid;
	open_part(c, ns);
}

static void profiler_stop(struct capture_range *c, uint32_t pid, uint64_t ns)
{
	for (unsigned i = 0; i < c->open_cnt; i++) {
		if (c->pids[i] != pid)
			continue;
		c->pids[i] = c->pids[c->open_cnt - 1];
		close_part(c, ns);
		return;
	}
}

void capture_range__event(struct capture_range *c, const struct trace_event *ev)
{
	if (c->kind != CAPTURE_PROFILER)
		return;
	if (ev->kind == EVENT_PROCESS && strcmp(ev->op, "fork"))
		profiler_stop(c, ev->pid, ev->end_ns);
	if (ev->kind != EVENT_CALL || !ev->fn || ev->is_error)
		return;
	if (!strcmp(ev->fn->name, "cuProfilerStart"))
		profiler_start(c, ev->pid, ev->start_ns);
	else if (!strcmp(ev->fn->name, "cuProfilerStop"))
		profiler_stop(c, ev->pid, ev->end_ns);
}

void capture_range__free(struct capture_range *c)
{
	free(c->pids);
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
