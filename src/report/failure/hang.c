/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits that have not returned: what runs on the stream that they wait for. */
#include "failure_priv.h"

#include <stdio.h>

#include "model/call.h"
#include "report/time/wait.h"

/* As in the finding unfinished-wait: at least this long, and at least this many times as long as
 * the longest wait that returned. */
#define HANG_NS	   1000000000ull
#define HANG_TIMES 10

/* The first pending work of each stream, once. */
struct heads {
	const struct work *of[INFLIGHT_STREAMS_MAX];
	unsigned cnt;
};

static bool is_head(const struct heads *h, const struct work *x)
{
	for (unsigned i = 0; i < h->cnt; i++)
		if (h->of[i]->number == x->number)
			return true;
	return false;
}

static void add(struct heads *h, const struct work *x)
{
	if (!is_head(h, x))
		h->of[h->cnt++] = x;
}

/* Copies end by themselves, so kernels come first, and among them those that are new. */
static void list_heads(struct inflight *work, struct fail_case *c, const struct heads *h)
{
	c->suspect_cnt = h->cnt;
	for (unsigned likely = LIKELY_MAX + 1; likely--;) {
		for (unsigned i = 0; i < h->cnt && c->listed_cnt < SUSPECTS_MAX; i++) {
			struct work x = *h->of[i];

			if (inflight__likely(work, &x) == likely)
				c->suspects[c->listed_cnt++] = x;
		}
	}
}

/* Pending work that a wait includes, besides the heads of its streams. */
struct rest {
	struct fail_case *c;
	const struct inflight *work;
	uint32_t stream; /* that is waited for; KEYS_NONE: the context */
	uint32_t head_stream;
	const struct heads *heads;
	bool code; /* list what runs code; else other work */
};

static void add_rest(void *ctx, const struct work *x)
{
	struct rest *r = ctx;
	bool waited =
		r->stream == KEYS_NONE
			? inflight_in_context(r->work, &r->work->streams[x->stream], r->c->ctx)
			: x->stream == r->stream || x->stream == r->head_stream;

	/* Other streams' work may keep this one from running. */
	r->c->partial |= !waited;
	if (!waited || runs_code(x) != r->code || is_head(r->heads, x))
		return;
	r->c->suspect_cnt++;
	if (r->c->listed_cnt < SUSPECTS_MAX)
		r->c->suspects[r->c->listed_cnt++] = *x;
}

/* blocking: only of streams that the legacy default stream waits for. */
static void heads_of_context(const struct inflight *work, const struct fail_case *c, bool blocking,
			     struct heads *h)
{
	for (uint32_t i = 0; i < work->stream_cnt; i++) {
		const struct work *x = NULL;

		if (work->streams[i].last > work->streams[i].done &&
		    (!blocking || work->streams[i].is_blocking) &&
		    inflight_in_context(work, &work->streams[i], c->ctx))
			x = inflight__head(work, i);
		if (x)
			add(h, x);
	}
}

static bool waits_for_legacy(const struct trace_event *ev)
{
	return !(ev->has & HAS_CU_EVENT) && !call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);
}

/* Returns the stream that the call waits for; KEYS_NONE: the context, or unknown. */
static uint32_t find_heads(struct inflight *work, struct fail_case *c, const struct trace_event *ev,
			   struct heads *h)
{
	const struct work *x;
	const struct inflight_event *e = NULL;
	uint32_t i = KEYS_NONE;

	if (ev->has & HAS_CU_EVENT) {
		e = inflight__recorded(work, ev->cu_event);
		if (!e)
			c->wait_event = ev->cu_event;
		else if (e->number > work->streams[e->stream - 1].done)
			i = e->stream - 1;
	} else if ((ev->has & HAS_STREAM) || ev->type == TYPE_TRANSFER) {
		i = inflight__stream_of(work, ev);
	} else {
		heads_of_context(work, c, false, h);
	}
	x = i != KEYS_NONE ? inflight__head(work, i) : NULL;
	if (x)
		add(h, x);
	else if (waits_for_legacy(ev))
		heads_of_context(work, c, true, h);
	return i;
}

static void list_work(struct inflight *work, struct fail_case *c, const struct trace_event *ev)
{
	struct heads heads = {.cnt = 0};
	struct rest r = {.c = c, .work = work, .heads = &heads};

	inflight__note_completed(work);
	r.stream = find_heads(work, c, ev, &heads);
	if (!heads.cnt)
		return;
	list_heads(work, c, &heads);
	r.head_stream = c->suspects[0].stream;
	for (unsigned code = 2; code--;) {
		r.code = code;
		inflight__each(work, add_rest, &r);
	}
	c->behind = c->suspect_cnt - heads.cnt;
}

static void explain(struct failure *f, struct fail_case *c, const struct trace_event *ev)
{
	struct fail_proc *p = fail_proc_get(f, ev->pid);
	uint64_t ctx = memory_context(f->r, ev);

	c->ctx = ctx == CONTEXT_UNKNOWN ? 0 : ctx;
	c->waited_ns = event_duration_ns(ev);
	c->load = gpu_share_load(&f->gpu, c->pid, c->at_ns);
	c->partial = !p || inflight_is_partial(&p->work);
	if (p)
		list_work(&p->work, c, ev);
}

void hang_reported(struct failure *f, const struct trace_event *ev)
{
	unsigned i = f->reported_cnt;

	if (i == CASES_MAX)
		return;
	f->reported[i].pid = ev->tracer.process;
	f->reported[i].tid = ev->tracer.thread;
	f->reported_cnt++;
}

static bool was_reported(const struct failure *f, const struct fail_case *c)
{
	for (unsigned i = 0; i < f->reported_cnt; i++)
		if (f->reported[i].pid == c->pid && f->reported[i].tid == c->tid)
			return true;
	return false;
}

void hang_event(struct failure *f, const struct trace_event *ev)
{
	struct fail_case *c;

	if (!call_blocks(ev) || !call_is_top(ev) || event_duration_ns(ev) < HANG_NS)
		return;
	c = fail_case_add(f, CASE_HANG, ev);
	if (c)
		explain(f, c, ev);
}

void failure_wait(struct report *r, const struct trace_event *ev, struct failure_wait *res)
{
	struct failure *f = r->an[AN_FAILURE];
	struct fail_case c = fail_case_of(CASE_HANG, ev);
	const struct work *x = c.suspects;

	explain(f, &c, ev);
	fail_verdict(f, &c);
	*res = (struct failure_wait){
		.certain = c.certain,
		.behind = c.behind,
		.unrecorded_event = c.wait_event,
	};
	snprintf(res->verdict, sizeof(res->verdict), "%s", c.verdict);
	snprintf(res->advice, sizeof(res->advice), "%s", c.advice);
	if (!c.listed_cnt)
		return;
	submission_name(x, res->work, sizeof(res->work));
	stack_place(x->stack, x->operator, x->kernel, res->place, sizeof(res->place));
	res->work_id = x->id;
	res->stream = x->handle;
	res->host_fn = x->host_fn;
}

void hang_finish(struct failure *f)
{
	struct wait_result w;
	unsigned kept = 0;

	wait_result(f->r, &w);
	for (unsigned i = 0; i < f->cnt; i++) {
		const struct fail_case *c = &f->cases[i];

		if (c->kind == CASE_HANG && c->waited_ns < HANG_TIMES * w.longest_returned_ns &&
		    !was_reported(f, c))
			continue;
		if (kept != i)
			f->cases[kept] = *c;
		kept++;
	}
	f->cnt = kept;
}
