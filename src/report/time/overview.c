/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Overview: the trace, the processes that made calls, and the time of calls. */
#include "overview_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "model/failure.h"

static void overview__free(void *a)
{
	struct overview *o = a;

	for (unsigned i = 0; i < o->fn_keys.cnt && i < o->fn_cap; i++)
		memlimit_free(o->fns[i].loghist);
	keys__free(&o->fn_keys);
	keys__free(&o->proc_keys);
	keys__free(&o->thread_keys);
	memlimit_free(o->fns);
	memlimit_free(o->procs);
	memlimit_share_free(&o->error_rows);
	free(o->rows);
	free(o);
}

static struct ov_fn *fn_get(struct overview *o, const struct api_fn *fn)
{
	uint32_t i = keys_row_max(&o->fn_keys, (uintptr_t)fn, KEYS_NONE, MEMLIMIT_FUNCTIONS, o->fns,
				  o->fn_cap);

	if (i == KEYS_NONE)
		return NULL;
	if (!o->fns[i].fn) {
		o->fns[i].fn = fn;
		o->fns[i].loghist = memlimit_new(MEMLIMIT_FUNCTIONS, sizeof(*o->fns[i].loghist));
	}
	return &o->fns[i];
}

static struct ov_proc *proc_get(struct overview *o, const struct trace_event *ev)
{
	uint32_t i = keys_row_max(&o->proc_keys, ev->pid, OV_PROCS_MAX, MEMLIMIT_PROCESSES,
				  o->procs, o->proc_cap);

	if (i == KEYS_NONE)
		return NULL;
	if (!o->procs[i].pid) {
		o->procs[i].pid = ev->pid;
		o->procs[i].first_ns = ev->start_ns;
	}
	return &o->procs[i];
}

static void on_error(struct overview *o, const struct trace_event *ev)
{
	struct overview_error *failures;
	unsigned i = 0;

	o->t.error_cnt++;
	while (i < o->error_kinds &&
	       (o->errors[i].code != ev->result || o->errors[i].first->api != ev->fn->api))
		i++;
	if (i == o->error_kinds) {
		if (!memlimit_charge(&o->error_rows, 1, MEMLIMIT_ERRORS_MAX, MEMLIMIT_ERRORS))
			return;
		o->error_kinds++;
		o->errors[i] = (struct ov_error){ev->result, 0, ev->start_ns, ev->fn, {0}};
	}
	o->errors[i].cnt++;
	failures = &o->errors[i].failures;
	if (!call_is_outer(ev) || !failure_matters(ev->fn, ev->result))
		return;
	if (!failures->cnt++)
		*failures = (struct overview_error){ev->fn, ev->result, 1, ev->start_ns};
}

static void on_times(struct overview *o, struct ov_fn *f, const struct trace_event *ev)
{
	uint64_t ns = event_duration_ns(ev);
	unsigned class = ev->fn->class;

	if (f) {
		f->timed_cnt++;
		f->total_ns += ns;
		f->max_ns = ns > f->max_ns ? ns : f->max_ns;
		f->error_cnt += ev->is_error;
		if (f->loghist)
			loghist_add(f->loghist, ns);
	}
	if (!call_is_outer(ev))
		return;
	o->t.class_ns[class] += ns;
	if (call_is_top(ev)) {
		o->t.class_top_ns[class] += ns;
		o->t.call_ns += ns;
	}
	o->class_timed[class]++;
	if (ns > o->class_max_ns[class])
		o->class_max_ns[class] = ns;
}

static void on_call(struct overview *o, struct ov_proc *p, const struct trace_event *ev)
{
	struct ov_fn *f = fn_get(o, ev->fn);
	uint32_t threads = o->thread_keys.cnt;

	if (f)
		f->cnt++;
	o->t.call_cnt++;
	o->t.class_cnt[ev->fn->class]++;
	if (p) {
		keys_get(&o->thread_keys, thread_key(ev->pid, ev->tid), OV_THREADS_MAX,
			 MEMLIMIT_THREADS);
		p->thread_cnt += o->thread_keys.cnt > threads;
		o->caller_cnt += !p->call_cnt++;
		p->comm = p->comm && ev->pid != ev->tid ? p->comm : ev->comm;
	}
	o->abandoned_cnt += ev->abandoned;
	o->unfinished_cnt += ev->unfinished && !ev->abandoned;
	if (!call_took_time(ev))
		return;
	if (!ev->entry_only || ev->unfinished)
		on_times(o, f, ev);
	if (ev->unfinished)
		return;
	if (ev->is_error)
		on_error(o, ev);
	o->t.launch_cnt += call_launches(ev);
	o->t.graph_launch_cnt += call_launches_graph(ev);
}

static void overview_event(void *a, const struct trace_event *ev)
{
	struct overview *o = a;
	struct ov_proc *p = NULL;

	o->type_cnt[ev->type < TYPE_CNT ? ev->type : TYPE_OTHER]++;
	if (ev->kind == EVENT_CALL || ev->kind == EVENT_PROCESS || ev->kind == EVENT_DRIVER)
		p = proc_get(o, ev);
	if (p) {
		p->first_ns = ev->start_ns < p->first_ns ? ev->start_ns : p->first_ns;
		p->last_ns = ev->end_ns > p->last_ns ? ev->end_ns : p->last_ns;
		p->comm = p->comm ? p->comm : ev->comm;
	}
	if (ev->kind == EVENT_CALL && ev->fn)
		on_call(o, p, ev);
	if (ev->kind == EVENT_GPU_DEVICE && !o->gpu_model)
		o->gpu_model = ev->gpu_device.model;
	if (ev->kind != EVENT_PROCESS || !p || strcmp(ev->name, "exit"))
		return;
	p->exited = true;
	p->exit_code = ev->process.exit_code;
	p->signal = ev->process.signal;
}

const char *overview_gpu(const struct report *r)
{
	const struct overview *o = r->an[AN_OVERVIEW];

	return o ? o->gpu_model : NULL;
}

bool overview_exit(const struct report *r, unsigned i, struct overview_exit *res)
{
	const struct overview *o = r->an[AN_OVERVIEW];
	const struct ov_proc *p;

	if (!o || i >= o->proc_keys.cnt)
		return false;
	p = &o->procs[i];
	*res = (struct overview_exit){p->pid,	 p->exit_code, p->signal,  p->comm,
				      p->exited, p->last_ns,   p->call_cnt};
	return true;
}

bool overview_error(const struct report *r, unsigned i, struct overview_error *res)
{
	const struct overview *o = r->an[AN_OVERVIEW];

	if (!o || i >= o->error_kinds)
		return false;
	*res = o->errors[i].failures;
	return true;
}

void overview_totals(const struct report *r, struct overview_totals *t)
{
	const struct overview *o = r->an[AN_OVERVIEW];

	memset(t, 0, sizeof(*t));
	if (o)
		*t = o->t;
}

const struct analysis_ops overview_ops = {
	.name = "overview",
	.size = STATE_SIZE(struct overview),
	.event = overview_event,
	.finish = overview_finish,
	.section = &overview_table,
	.print = overview_print,
	.free = overview__free,
};
