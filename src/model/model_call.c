/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records of calls: each model annotates its part, in a fixed order. */
#include "model.h"

#include "call.h"
#include "collective.h"
#include "dnn_call.h"
#include "event_table.h"
#include "job.h"
#include "model_priv.h"
#include "samples.h"

#include "util/profile_budget.h"
#include "util/words.h"

#include <stdlib.h>
#include <string.h>

/* Returns NULL if there is no such function. */
static const struct annotations *get_annotations(struct model *m, uint32_t func_id)
{
	const struct api_fn *fn;

	if (func_id >= CT_MAX_FUNCS)
		return NULL;
	if (!m->meanings[func_id].fn) {
		fn = fnset__fn(m->opts.fns, func_id);
		if (!fn)
			return NULL;
		annotate__init(&m->meanings[func_id], fn);
	}
	return &m->meanings[func_id];
}

/* Clears the members that the last call may have set. */
static inline void clear_call(struct trace_event *ev)
{
	const size_t base = offsetof(struct trace_event, coll);

	if (!ev->plain)
		words_clear((char *)ev + base, offsetof(struct trace_event, caps) - base);
	words_clear(ev, base);
}

static void fill_call(struct trace_event *ev, const struct raw_call *raw,
		      const struct annotations *m)
{
	const struct ct_call *c = raw->call;
	const struct api_fn *fn = m->fn;

	ev->plain = m->plain;
	ev->kind = EVENT_CALL;
	ev->name = fn->name;
	ev->fn = fn;
	ev->pid = c->rec.pid;
	ev->tid = c->rec.tid;
	ev->start_ns = c->rec.ts_ns;
	ev->end_ns = c->end_ns;
	ev->id = raw->id;
	ev->parent_id = raw->parent_id;
	ev->depth = c->depth;
	ev->api_depth = c->api_depth;
	ev->lib_id = c->lib_id;
	ev->result = fn->no_result ? 0 : c->result;
	if (c->ioctl_cnt | c->ioctl_ns | c->off_cpu_ns) {
		ev->plain = false;
		ev->ioctl_cnt = c->ioctl_cnt;
		ev->ioctl_ns = c->ioctl_ns;
		ev->off_cpu_ns = c->off_cpu_ns;
	}
	ev->unfinished = c->rec.flags & CT_CALL_F_UNFINISHED;
	ev->abandoned = c->rec.flags & CT_CALL_F_ABANDONED;
	ev->entry_only = c->rec.flags & CT_CALL_F_ENTRY_ONLY;
	ev->sampled = c->rec.flags & CT_CALL_F_SAMPLED;
	ev->is_error = event_returned(ev) && fn_is_error(fn, ev->result);
	ev->words = raw->words;
	ev->word_cnt = raw->word_cnt;
	ev->cap_cnt = raw->cap_cnt;
	for (unsigned i = 0; i < raw->cap_cnt; i++)
		ev->caps[i] = (struct pointee){raw->caps[i].data, raw->caps[i].len};
}

/* Sets the stack of a call, and delivers its definition if it is new. */
static void add_stack(struct model *m, struct proc *p, const struct raw_call *raw,
		      struct trace_event *ev)
{
	struct trace_event def = event_of(EVENT_STACK, &raw->call->rec, "stack");
	struct stack_source from = {
		.ips = raw->stack,
		.cnt = raw->stack_cnt,
		.python = raw->python,
		.python_cnt = raw->python_cnt,
	};
	bool is_new;

	if (!profile_budget__has_time())
		return;
	profile_budget__begin();
	/* At an entry, the return address may appear twice. */
	if (ev->entry_only && from.cnt > 1 && from.ips[0] == from.ips[1]) {
		from.ips++;
		from.cnt--;
	}
	if (from.cnt || from.python_cnt)
		ev->stack = proc_stacks__get(m->stacks, &p->stacks, m->opts.live ? p->pid : 0,
					     &from, ev->end_ns, &is_new);
	def.comm = ev->comm;
	def.stack = ev->stack;
	if (ev->stack && is_new)
		m->opts.fn(m->opts.ctx, &def);
	profile_budget__end();
}

const struct stack *model__stack(struct model *m, uint32_t pid, uint32_t tid,
				 const struct stack_source *from, uint64_t now)
{
	const struct ct_rec rec = {.pid = pid, .tid = tid, .ts_ns = now};
	struct trace_event def = event_of(EVENT_STACK, &rec, "stack");
	struct proc *p = procs__find(&m->procs, pid);
	struct thread *t = p ? proc__thread(&m->procs, p, tid) : NULL;
	bool is_new;

	if (!t)
		return NULL;
	proc_stacks__forget(p->stacks);
	def.comm = proc__comm(p, t);
	def.stack = proc_stacks__get(m->stacks, &p->stacks, pid, from, now, &is_new);
	if (def.stack)
		m->opts.fn(m->opts.ctx, &def);
	return def.stack;
}

static void add_range(const struct thread *t, struct trace_event *ev)
{
	const struct range *r = thread_range_at(t, ev->start_ns);

	if (!r)
		return;
	ev->range_id = r->id;
	ev->range_text = range__text(r);
}

void model__in_flight(struct model *m, uint32_t pid, uint32_t tid, uint32_t func_id,
		      const __u64 words[CT_MAX_WORDS], uint64_t start_ns)
{
	const struct annotations *annotations = get_annotations(m, func_id);
	struct proc *p = procs__find(&m->procs, pid);
	struct rank_begun b;

	if (!annotations || !p || !collective__in_flight(annotations, p, words, &b))
		return;
	b.tid = tid;
	b.ns = start_ns;
	ranks__begun(&m->ranks, &b);
}

static bool may_wait(const struct api_fn *fn)
{
	return op_does(fn->op, DOES_WAIT) || fn->class == CLASS_TRANSFER ||
	       (fn->class == CLASS_MEMORY && op_does(fn->op, MAY_WAIT));
}

bool model__wait(struct model *m, const struct ct_call *call, const __u64 words[CT_MAX_WORDS],
		 struct trace_event *ev)
{
	const struct annotations *annotations = get_annotations(m, call->func_id);
	struct proc *p = procs__find(&m->procs, call->rec.pid);
	struct thread *t = p ? proc__thread(&m->procs, p, call->rec.tid) : NULL;
	const struct raw_call raw = {
		.call = call,
		.words = (const uint64_t *)words,
		.word_cnt = m->opts.redact == CT_REDACT_ARGS ? 0 : CT_MAX_WORDS,
	};

	if (!annotations || !t || !may_wait(annotations->fn))
		return false;
	*ev = (struct trace_event){0};
	fill_call(ev, &raw, annotations);
	ev->comm = proc__comm(p, t);
	annotate__apply(annotations, ev, p);
	return call_blocks(ev) || call_may_block(ev);
}

/* Delivers the process's place in a job before its first call. */
static void give_job(struct model *m, struct proc *p, const struct thread *t,
		     const struct raw_call *raw)
{
	struct ct_rec rec = raw->call->rec;
	struct trace_event ev = event_of(EVENT_JOB, &rec, "rank");

	p->has_job = true;
	if (!m->opts.live || !job_rank_of((pid_t)p->pid, &ev.job.global_rank))
		return;
	ev.comm = proc__comm(p, t);
	m->opts.fn(m->opts.ctx, &ev);
}

void model__call(struct model *m, const struct raw_call *raw)
{
	const struct annotations *annotations;
	struct trace_event *ev = &m->call;
	struct joined_call joined;
	struct thread *t;
	struct proc *p;

	if (raw->call->func_id == m->opts.stub_func_id)
		return;
	annotations = get_annotations(m, raw->call->func_id);
	if (!annotations) {
		m->bad_cnt++;
		return;
	}
	p = procs__get(&m->procs, raw->call->rec.pid);
	t = p ? proc__thread(&m->procs, p, raw->call->rec.tid) : NULL;
	if (!t)
		return;
	if (!p->has_job)
		give_job(m, p, t, raw);
	if (t->samples)
		raw = samples__join(t, raw, !m->opts.profile, &joined);
	clear_call(ev);
	fill_call(ev, raw, annotations);
	ev->comm = proc__comm(p, t);
	ev->has_comm16 = ev->comm;
	ev->kernel_id = ev->kernel_mangled_id = 0;
	if (t->operators.cnt | raw->operator_id)
		operators__enter(&m->operators, raw, p, t, ev);
	if (annotations->fn->api == API_TORCH) {
		operators__call(&m->operators, annotations, raw, ev, p, t);
		return;
	}
	if (annotations->fn->api == API_NVTX) {
		ranges__call(&m->ranges, annotations, ev, p, t, raw->call->result);
		return;
	}
	if (t->range)
		add_range(t, ev);
	ev->has |= (m->opts.kernel ? HAS_IOCTLS : 0) | (m->opts.sched ? HAS_OFF_CPU : 0);
	annotate__apply(annotations, ev, p);
	if (annotations->fn->class == CLASS_DNN)
		dnn__call(m->procs.quotas, annotations, ev, p);
	if (annotations->fn->class == CLASS_DEVICE)
		devices__call(&m->devices, annotations, ev);
	else if (m->devices.new_cnt)
		model__give_devices(m, ev->start_ns);
	if (annotations->fn->class == CLASS_COLLECTIVE) {
		collective__apply(annotations, ev, p, t);
		if (m->opts.live)
			ranks__event(&m->ranks, ev);
	} else if (annotations->fn->class == CLASS_LAUNCH && ev->depth) {
		collective__launched(annotations, ev, t);
	}
	/* The duration of a call that has not returned is unknown. */
	if (!ev->entry_only && !ev->unfinished && event_duration_ns(ev) < m->opts.min_duration_ns) {
		m->filtered_cnt++;
		if (m->opts.gpu_time)
			model__gpu_call(m, p, t, ev, false);
		return;
	}
	/* A call of the library without frames has lost them. */
	if (m->opts.python)
		stacks__count_python(
			m->stacks, raw->call,
			fnset__is_marked(m->opts.fns, FNSET_PYTHON, raw->call->func_id) &&
				(!(raw->id >> RAW_ID_BITS) || raw == &joined.raw));
	if (raw->stack_cnt || raw->python_cnt)
		add_stack(m, p, raw, ev);
	m->opts.fn(m->opts.ctx, ev);
	if (m->opts.gpu_time)
		model__gpu_call(m, p, t, ev, true);
}
