/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * GPU times of a running program for some seconds: ctl burst PID --gpu-time, with trace.gpu_burst.
 * The library enters the process if it is not there yet. CUPTI is started in the process behind a
 * gate (inject/gate.c), and stopped at the end. The process is traced in full from the request on,
 * and until the last executions have arrived.
 */
#include "daemon_priv.h"

#include "model/gpu.h"

#include <stdio.h>
#include <string.h>

/* Limits: the library enters; CUPTI starts; it stops. */
#define ENTER_MAX_NS 60000000000ull
#define START_MAX_NS 20000000000ull
#define STOP_MAX_NS  4000000000ull
/* Lines of the last executions are made within this time. */
#define REST_NS 1000000000ull

static struct gpu_burst *find(struct daemon *d, uint32_t pid)
{
	for (unsigned i = 0; i < GPU_BURSTS_MAX; i++)
		if (d->gpu_bursts[i].pid == pid)
			return &d->gpu_bursts[i];
	return NULL;
}

static bool is_over(const struct gpu_burst *b)
{
	return b->phase == GPU_BURST_OVER;
}

/* Also one that is over, if it is the oldest. */
static struct gpu_burst *find_room(struct daemon *d, uint32_t pid)
{
	struct gpu_burst *room = find(d, pid);

	for (unsigned i = 0; i < GPU_BURSTS_MAX && !room; i++)
		if (!d->gpu_bursts[i].pid)
			room = &d->gpu_bursts[i];
	if (room)
		return room;
	for (unsigned i = 0; i < GPU_BURSTS_MAX; i++) {
		struct gpu_burst *b = &d->gpu_bursts[i];

		if (is_over(b) && (!room || b->limit_ns < room->limit_ns))
			room = b;
	}
	return room;
}

static void end(struct daemon *d, struct gpu_burst *b, struct dproc *p, const char *why)
{
	b->phase = GPU_BURST_OVER;
	b->limit_ns = d->now;
	snprintf(b->why, sizeof(b->why), "%s", why);
	if (p && p->burst_until_ns > d->now + REST_NS)
		p->burst_until_ns = d->now + REST_NS;
}

static const char *start(struct daemon *d, struct gpu_burst *b, struct dproc *p)
{
	const char *why = source_inject__set_gpu(&d->t.sources, p->pid, d->cfg->trace.gpu_burst);

	if (why)
		return why;
	b->phase = GPU_BURST_STARTS;
	b->limit_ns = d->now + START_MAX_NS;
	dprocs__burst(&d->procs, p, d->now, b->ns);
	p->burst_until_ns = d->now + START_MAX_NS + b->ns;
	return NULL;
}

static bool is_inproc(const struct daemon *d, uint32_t pid)
{
	return d->t.arbiter && arbiter__is_inproc(d->t.arbiter, pid);
}

const char *daemon__gpu_burst(struct daemon *d, struct dproc *p, uint64_t ns)
{
	struct gpu_burst *b = find_room(d, p->pid);
	const char *why;

#ifndef __x86_64__
	return "only programs on x86-64 can be entered";
#endif
	if (!d->cfg->trace.gpu_burst)
		return "CUPTI may crash a running program: set trace.gpu_burst: graphs to accept this, and "
		       "restart the daemon";
	if (!b)
		return "too many such bursts run already: try again later";
	if (b->pid == p->pid && !is_over(b))
		return "such a burst of this process runs already";
	*b = (struct gpu_burst){.pid = p->pid, .generation = p->generation, .ns = ns};
	b->limit_ns = d->now + ENTER_MAX_NS;
	why = is_inproc(d, p->pid) ? start(d, b, p) : daemon__inject(d, p, false);
	if (why)
		*b = (struct gpu_burst){0};
	return why;
}

static void on_state(struct daemon *d, struct gpu_burst *b, struct dproc *p,
		     const struct ct_shm_gpu *gpu)
{
	char text[400];

	if (gpu->state == CT_CUPTI_ON && b->phase == GPU_BURST_STARTS) {
		b->phase = GPU_BURST_ON;
		b->limit_ns = d->now + b->ns;
		dprocs__burst(&d->procs, p, d->now, b->ns + STOP_MAX_NS);
		p->burst_until_ns = b->limit_ns + STOP_MAX_NS;
	} else if (gpu->state != CT_CUPTI_ON && gpu->state != CT_CUPTI_NONE) {
		gpu_state_text(gpu, text, sizeof(text));
		end(d, b, p, d->t.o.attach.redact ? "CUPTI was not started" : text);
	} else if (gpu->state == CT_CUPTI_NONE && b->phase == GPU_BURST_STOPS) {
		/* The process has sent everything. */
		tracer__drain_for(&d->t, DRAIN_TURN_NS);
		end(d, b, p, "done");
	}
}

static void stop(struct daemon *d, struct gpu_burst *b)
{
	source_inject__set_gpu(&d->t.sources, b->pid, CT_GPU_TIME_OFF);
	b->phase = GPU_BURST_STOPS;
	b->limit_ns = d->now + STOP_MAX_NS;
}

static void on_limit(struct daemon *d, struct gpu_burst *b, struct dproc *p)
{
	if (b->phase == GPU_BURST_ON) {
		stop(d, b);
	} else if (b->phase == GPU_BURST_ENTERS) {
		end(d, b, p, "the library did not enter the process");
	} else if (b->phase == GPU_BURST_STARTS) {
		source_inject__set_gpu(&d->t.sources, b->pid, CT_GPU_TIME_OFF);
		end(d, b, p,
		    "CUPTI was not started: the process made no CUDA call, or was busy; try again");
	} else {
		end(d, b, p, "done, but CUPTI has not stopped in time");
	}
}

/* Returns false if the program has ended, or lost the library. */
static bool look(struct daemon *d, struct gpu_burst *b, struct dproc *p)
{
	const char *why = NULL;
	struct ct_shm_gpu gpu;

	if (b->phase == GPU_BURST_ENTERS) {
		if (is_inproc(d, b->pid))
			why = start(d, b, p);
		if (why)
			end(d, b, p, why);
	} else if (!source_inject__gpu_state(&d->t.sources, b->pid, &gpu)) {
		return false;
	} else {
		on_state(d, b, p, &gpu);
	}
	if (!is_over(b) && d->now >= b->limit_ns)
		on_limit(d, b, p);
	return true;
}

void daemon__gpu_tick(struct daemon *d)
{
	for (unsigned i = 0; i < GPU_BURSTS_MAX; i++) {
		struct gpu_burst *b = &d->gpu_bursts[i];
		struct dproc *p = b->pid ? dprocs__find(&d->procs, b->pid) : NULL;

		if (!b->pid)
			continue;
		if (!p || (b->generation && p->generation != b->generation))
			*b = (struct gpu_burst){0};
		else if (!is_over(b) && !look(d, b, p))
			end(d, b, p, "the library is not in the process any more");
		else if (!b->generation)
			b->generation = p->generation;
	}
}

bool daemon__any_gpu_burst(const struct daemon *d)
{
	for (unsigned i = 0; i < GPU_BURSTS_MAX; i++)
		if (d->gpu_bursts[i].pid && !is_over(&d->gpu_bursts[i]))
			return true;
	return false;
}

void daemon__gpu_refused(struct daemon *d, uint32_t pid, const char *why)
{
	struct gpu_burst *b = find(d, pid);

	if (b && b->phase == GPU_BURST_ENTERS)
		end(d, b, dprocs__find(&d->procs, pid), why);
}

const char *daemon__gpu_status(const struct daemon *d, uint32_t pid)
{
	static const char *const names[] = {"enters", "starts", "on", "stops"};
	const struct gpu_burst *b = find((struct daemon *)d, pid);

	return !b ? NULL : is_over(b) ? b->why : names[b->phase];
}
