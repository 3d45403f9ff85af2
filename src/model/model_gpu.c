/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Joins GPU executions (--gpu-time) with the calls that requested them. */
#include "gpu.h"
#include "model_priv.h"

#include <stdlib.h>

/* An execution waits at most this long for its call. */
#define GPU_WAIT_NS 1000000000ull

/* Delivers an execution whose call has arrived, or will not arrive any more. */
static void give_gpu(struct model *m, const struct ct_gpu_run *g, struct proc *p, struct thread *t,
		     struct gpu_call *call)
{
	const struct handle *h = p && g->name_id ? handles__get(&p->gpu_names, g->name_id) : NULL;
	const struct kernel_name *name = h ? (h->name ? h->name : h->read) : NULL;
	struct gpu_join *j = &m->procs.gpu;
	struct trace_event ev;

	if (!call && m->calls_end_ns && g->call_ns >= m->calls_end_ns)
		return;
	gpu_event(&ev, g, name ? name->demangled : NULL,
		  name && name->mangled != name->demangled ? name->mangled : NULL, call);
	ev.comm = proc__comm(p, t);
	ev.device = devices__find(&m->devices, g->rec.pid, g->device);
	if (!call) {
		j->no_call_cnt++;
	} else {
		j->timed_cnt += call->is_launch && !call->timed;
		call->timed = true;
	}
	m->opts.fn(m->opts.ctx, &ev);
}

static struct thread *find_thread(struct proc *p, uint32_t tid)
{
	return p ? thread_table__find(&p->threads, &tid) : NULL;
}

static void give_alone(struct model *m, const struct ct_gpu_run *g)
{
	struct proc *p = procs__find(&m->procs, g->rec.pid);

	give_gpu(m, g, p, find_thread(p, g->rec.tid), NULL);
}

static void give_first(struct model *m)
{
	give_alone(m, gpu_join__first(&m->procs.gpu));
	gpu_join__drop_first(&m->procs.gpu);
}

void model__give_devices(struct model *m, uint64_t ns)
{
	const struct device *d;
	struct trace_event ev;

	while ((d = devices__take_new(&m->devices))) {
		device_event(&ev, d, ns);
		m->opts.fn(m->opts.ctx, &ev);
	}
}

void model__gpu_run(struct model *m, const struct ct_gpu_run *g)
{
	struct proc *p = procs__find(&m->procs, g->rec.pid);
	struct thread *t = find_thread(p, g->rec.tid);
	const struct ct_gpu_run *first;
	struct gpu_call *call = NULL;
	bool later = true;

	if (!m->opts.gpu_time || g->what >= CT_RUN_WHAT_CNT || g->end_ns < g->rec.ts_ns) {
		m->bad_cnt++;
		return;
	}
	while ((first = gpu_join__first(&m->procs.gpu)) &&
	       first->sent_ns + GPU_WAIT_NS < g->sent_ns)
		give_first(m);
	if (g->call_ns && t && t->gpu_calls)
		call = gpu_calls__find(t->gpu_calls, g->call_ns, &later);
	if (call || !g->call_ns || !later) {
		give_gpu(m, g, p, t, call);
		return;
	}
	if (gpu_join__wait(&m->procs.gpu, g))
		return;
	if (gpu_join__first(&m->procs.gpu))
		give_first(m);
	if (!gpu_join__wait(&m->procs.gpu, g))
		give_alone(m, g);
}

struct give_ctx {
	struct model *m;
	struct proc *p;
	struct thread *t;
	const struct trace_event *ev;
	uint32_t pid;
};

/* Delivers an execution that belongs to the call that has arrived. */
static bool give_in_call(const struct ct_gpu_run *g, void *arg)
{
	const struct give_ctx *to = arg;
	bool later;

	if (g->rec.pid != to->ev->pid || g->rec.tid != to->ev->tid ||
	    g->call_ns < to->ev->start_ns || g->call_ns > to->ev->end_ns)
		return false;
	give_gpu(to->m, g, to->p, to->t, gpu_calls__find(to->t->gpu_calls, g->call_ns, &later));
	return true;
}

static bool give_of_process(const struct ct_gpu_run *g, void *arg)
{
	const struct give_ctx *to = arg;

	if (g->rec.pid != to->pid)
		return false;
	give_alone(to->m, g);
	return true;
}

static struct gpu_calls *new_calls(const struct model *m, const struct proc *p)
{
	struct gpu_calls *c = calloc(1, sizeof(*c));

	if (c && m->opts.cupti_late)
		c->since_ns = p->gpu_since_ns ?: UINT64_MAX;
	return c;
}

void model__gpu_since(struct model *m, uint32_t pid, uint64_t ns)
{
	struct proc *p = procs__find(&m->procs, pid);

	if (!p || !m->opts.cupti_late)
		return;
	p->gpu_since_ns = ns;
	hash_each (t, &p->threads)
		if (t->gpu_calls)
			t->gpu_calls->since_ns = ns;
}

void model__gpu_call(struct model *m, struct proc *p, struct thread *t,
		     const struct trace_event *ev, bool is_line)
{
	struct give_ctx to = {.m = m, .p = p, .t = t, .ev = ev};

	if (!gpu_is_wanted(ev))
		return;
	if (!t->gpu_calls)
		t->gpu_calls = new_calls(m, p);
	if (!t->gpu_calls)
		return;
	gpu_calls__add(&m->procs.gpu, t->gpu_calls, ev, is_line);
	if (m->procs.gpu.waiting_cnt)
		gpu_join__take(&m->procs.gpu, give_in_call, &to);
}

void model__gpu_end(struct model *m, uint32_t pid)
{
	struct give_ctx to = {.m = m, .pid = pid};

	gpu_join__take(&m->procs.gpu, give_of_process, &to);
}

void model__gpu_flush(struct model *m)
{
	while (gpu_join__first(&m->procs.gpu))
		give_first(m);
}

void model__calls_end(struct model *m, uint64_t now)
{
	m->calls_end_ns = now;
}

void model__gpu(const struct model *m, struct trace_end *end)
{
	const struct gpu_join *j = &m->procs.gpu;
	if (!m->opts.gpu_time)
		return;
	end->gpu.launches_timed = j->timed_cnt;
	end->gpu.launches_untimed = j->missing_cnt;
	end->gpu.no_call = j->no_call_cnt;
	hash_each (p, &m->procs.by_pid)
		hash_each (t, &p->threads)
			if (t->gpu_calls)
				end->gpu.launches_untimed += gpu_calls__missing(t->gpu_calls);
}
