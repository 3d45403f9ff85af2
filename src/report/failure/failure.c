/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds failures: the first error of a fault in a context, waits that do not end, failed
 * allocations, Xids. */
#include "failure_priv.h"

#include <stdlib.h>
#include <string.h>

#include "decode/cuda.h"
#include "model/call.h"
#include "util/memlimit.h"
#include "util/order.h"

#define PROCS_MAX 4096

const char *const case_kind_name[] = {"fault", "hang", "out-of-memory", "xid"};

static void failure__free(void *a)
{
	struct failure *f = a;

	for (unsigned i = 0; i < f->proc_keys.cnt; i++)
		inflight__free(&f->procs[i].work);
	for (unsigned i = 0; i < f->cnt; i++)
		memlimit_free(f->cases[i].growth.blocks);
	keys__free(&f->proc_keys);
	memlimit_free(f->procs);
	memlimit_free(f->freed);
	gpu_share__free(&f->gpu);
	torch_free(f);
	free(f);
}

struct fail_proc *fail_proc_get(struct failure *f, uint32_t pid)
{
	uint32_t i = keys_row_max(&f->proc_keys, pid, PROCS_MAX, MEMLIMIT_PROCESSES, f->procs,
				  f->proc_cap);

	if (i == KEYS_NONE)
		return NULL;
	f->procs[i].pid = pid;
	return &f->procs[i];
}

struct fail_case fail_case_of(enum case_kind kind, const struct trace_event *ev)
{
	return (struct fail_case){
		.kind = kind,
		.pid = ev->kind == EVENT_XID ? 0 : ev->pid,
		.tid = ev->tid,
		.at_ns = ev->start_ns,
		.end_ns = ev->end_ns,
		.id = ev->id,
		.cnt = 1,
		.fn = ev->fn,
		.result = ev->result,
		.device = -1,
	};
}

struct fail_case *fail_case_add(struct failure *f, enum case_kind kind,
				const struct trace_event *ev)
{
	if (f->cnt == CASES_MAX) {
		f->more++;
		return NULL;
	}
	f->cases[f->cnt] = fail_case_of(kind, ev);
	return &f->cases[f->cnt++];
}

/* A fault makes its context unusable: each later error in it follows from the first. */
static struct fail_case *same_fault(struct failure *f, uint32_t pid, uint64_t ctx)
{
	for (unsigned i = 0; i < f->cnt; i++) {
		struct fail_case *c = &f->cases[i];

		if (c->kind == CASE_FAULT && c->pid == pid && (c->ctx == ctx || !ctx || !c->ctx))
			return c;
	}
	return NULL;
}

static void on_fault(struct failure *f, const struct trace_event *ev, enum fault_work of)
{
	uint64_t ctx = memory_context(f->r, ev);
	struct fail_case *c;

	ctx = ctx == CONTEXT_UNKNOWN ? 0 : ctx;
	c = same_fault(f, ev->pid, ctx);
	if (c) {
		c->cnt++;
		return;
	}
	c = fail_case_add(f, CASE_FAULT, ev);
	if (!c)
		return;
	c->ctx = ctx;
	suspects_of_fault(f, c, of);
	/* The driver returns this also when it cannot be initialised. */
	if (ev->result == CUDA_ERROR_UNKNOWN && !c->suspect_cnt) {
		f->cnt--;
		return;
	}
	xid_join(f, c);
}

static void on_call(struct failure *f, const struct trace_event *ev)
{
	struct fail_proc *p;
	enum fault_work of;
	uint64_t ctx, ended;

	if (ev->is_error && call_is_outer(ev) && fault_is(ev->fn, ev->result, &of))
		on_fault(f, ev, of);
	if (ev->is_error && call_is_outer(ev))
		oom_event(f, ev);
	if (ev->unfinished && call_is_outer(ev))
		hang_event(f, ev);
	oom_retried(f, ev);
	if (!call_was_made(ev) || ev->result || !call_is_top(ev))
		return;
	address_event(f, ev);
	p = fail_proc_get(f, ev->pid);
	if (!p)
		return;
	p->work.whole |= ev->fn->class == CLASS_INIT && !strcmp(ev->fn->name, "cuInit");
	p->work.from_start |= p->work.whole;
	if (ev->capture || ev->capturing)
		return;
	ctx = memory_context(f->r, ev);
	inflight__event(&p->work, ev, ctx == CONTEXT_UNKNOWN ? 0 : ctx);
	ended = memory_ended_context(f->r, ev);
	if (ended)
		inflight__context_gone(&p->work, ev, ended);
}

static void on_process(struct failure *f, const struct trace_event *ev)
{
	struct fail_proc *p = fail_proc_get(f, ev->pid);

	if (!p)
		return;
	inflight__free(&p->work);
	/* Neither the child of a fork nor a new program has CUDA state. */
	p->work.from_start = p->work.whole = true;
}

static void failure_event(void *a, const struct trace_event *ev)
{
	struct failure *f = a;

	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(f, ev);
	else if (ev->kind == EVENT_GPU && ev->gpu.call_id && !ev->gpu.graph_node)
		suspects_ran(f, ev);
	else if (ev->kind == EVENT_XID)
		xid_event(f, ev);
	else if (ev->kind == EVENT_GPU_STATS || ev->kind == EVENT_CTXSW)
		gpu_share__event(&f->gpu, ev);
	else if (ev->kind == EVENT_ALLOCATOR)
		torch_event(f, ev);
	else if (ev->kind == EVENT_PROCESS)
		on_process(f, ev);
	else if (ev->kind == EVENT_TRACER && ev->tracer.process && !ev->tracer.over)
		hang_reported(f, ev);
}

static int by_time(const void *a, const void *b)
{
	const struct fail_case *x = a, *y = b;

	/* The fault that broke a context comes first, because it explains later errors. */
	if ((x->kind == CASE_FAULT) != (y->kind == CASE_FAULT))
		return x->kind == CASE_FAULT ? -1 : 1;
	return ASCENDING(x->at_ns, y->at_ns);
}

static void failure_finish(void *a)
{
	struct failure *f = a;

	hang_finish(f);
	oom_finish(f);
	for (unsigned i = 0; i < f->cnt; i++)
		if (f->cases[i].kind == CASE_FAULT && !f->cases[i].has_xid)
			xid_join(f, &f->cases[i]);
	xid_finish(f);
	for (unsigned i = 0; i < f->cnt; i++) {
		if (f->cases[i].kind == CASE_OOM)
			growth_finish(f, &f->cases[i]);
		fail_verdict(f, &f->cases[i]);
	}
	if (f->cnt)
		qsort(f->cases, f->cnt, sizeof(f->cases[0]), by_time);
}

bool failure_first_fault(const struct report *r, struct failure_fault *res)
{
	const struct failure *f = r->an[AN_FAILURE];
	const struct fail_case *c = f->cases; /* faults come first */

	if (!f->cnt || c->kind != CASE_FAULT)
		return false;
	*res = (struct failure_fault){c->fn,  c->result,      c->at_ns,
				      c->cnt, c->suspect_cnt, c->certain};
	return true;
}

bool failure_first_oom(const struct report *r, struct failure_oom *res)
{
	const struct failure *f = r->an[AN_FAILURE];
	const struct fail_case *c = f->cases;

	while (c < f->cases + f->cnt && (c->kind != CASE_OOM || c->went_on))
		c++;
	if (c == f->cases + f->cnt)
		return false;
	*res = (struct failure_oom){c->fn, c->at_ns, c->cnt, c->requested, c->held, c->held_cnt};
	return true;
}

const struct analysis_ops failure_ops = {
	.name = "failure",
	.size = STATE_SIZE(struct failure),
	.event = failure_event,
	.finish = failure_finish,
	.section = &failure_cases_table,
	.is_list = true,
	.print = failure_print,
	.free = failure__free,
	.of_args = true,
};
