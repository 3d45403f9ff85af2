/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts events for their targets. */
#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv_decode.h"
#include "model/call.h"
#include "model/gpu_busy.h"
#include "metrics_priv.h"
#include "util/plain.h"

/* Finds or creates it; NULL when the limit is reached. */
static struct fn_metrics *fn_of(struct metrics *m, struct metrics_target *t,
				const struct api_fn *fn)
{
	struct fn_metrics **recent = recent_fn(t, fn), *f = *recent;

	if (f && f->fn == fn)
		return f;
	f = fn_metrics_table__find(&t->fns, &fn);
	if (!f && metrics__take(m, t, 1))
		f = metrics__made(m, t, 1, fn_metrics_table__new(&t->fns, &fn));
	if (f)
		*recent = f;
	return f;
}

static struct hist *duration_of(struct metrics *m, struct metrics_target *t,
				const struct api_fn *fn)
{
	struct hist **h = &t->durations[fn->api][fn->class];

	if (*h)
		return *h;
	if (t->hist_cnt >= HISTS_OF_A_TARGET && !metrics__take(m, t, SERIES_OF_A_HIST))
		return NULL;
	*h = calloc(1, sizeof(**h));
	t->hist_cnt += *h != NULL;
	return *h;
}

/* The classic histogram has a bucket for each factor of four, with its upper limit (`le`). Each of
 * its limits is also a limit of the fine histogram, so nothing is estimated. */
static unsigned bucket_of(uint64_t ns)
{
	unsigned i = 0;

	while (i < BUCKET_CNT && ns > BUCKET_NS(i))
		i++;
	return i;
}

const char *metrics_error_name(const struct api_fn *fn, int32_t code)
{
	return fn_result_name(fn, code) ?: "other";
}

static void add_error(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
		      int32_t code, uint64_t n)
{
	struct error_key key;
	struct error_metrics *e;

	if (!fn_result_name(fn, code))
		code = CT_RESULT_OTHER;
	memset(&key, 0, sizeof(key));
	key.fn = fn;
	key.code = code;
	e = error_metrics_table__find(&t->errors, &key);
	if (!e && metrics__take(m, t, 1))
		e = metrics__made(m, t, 1, error_metrics_table__new(&t->errors, &key));
	if (e)
		e->cnt += n;
}

static void add_call(struct metrics_fn *f, const struct trace_event *ev, uint64_t ns)
{
	f->calls++;
	if (!event_returned(ev))
		return;
	f->timed++;
	f->total_ns += ns;
	f->errors += ev->is_error;
	if (ns > f->max_ns)
		f->max_ns = ns;
}

/* The end of a group has the time that its calls take; the calls only record what is to be done. */
static void add_collectives(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
			    uint64_t cnt, uint64_t ns, uint64_t bytes)
{
	enum api_op op = fn->op;
	struct coll_metrics *x;

	if (fn->class != CLASS_COLLECTIVE ||
	    (!op_does(fn->op, DOES_COLLECTIVE | DOES_PEER) && fn->op != OP_GROUP_END))
		return;
	x = coll_metrics_table__find(&t->colls, &op);
	/* One per line of the metric. */
	if (!x && cnt && metrics__take(m, t, 3))
		x = metrics__made(m, t, 3, coll_metrics_table__new(&t->colls, &op));
	if (!x)
		return;
	x->cnt += cnt;
	x->total_ns += ns;
	x->bytes += bytes;
}

static void on_call(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct fn_metrics *f = fn_of(m, t, ev->fn);
	uint64_t ns = event_duration_ns(ev);
	struct hist *h;

	if (f)
		add_call(&f->sums, ev, ns);
	if (ev->unfinished || ev->abandoned)
		return;
	h = ev->entry_only ? NULL : duration_of(m, t, ev->fn);
	if (h) {
		h->cnt[bucket_of(ns)]++;
		h->sum_ns += ns;
	}
	if (ev->is_error) {
		add_error(m, t, ev->fn, ev->result, 1);
		return;
	}
	/* ncclBcast() contains ncclBroadcast(). */
	if (!ev->api_depth && event_returned(ev))
		add_collectives(m, t, ev->fn, 1, ns, ev->has & HAS_BYTES ? ev->coll.bytes : 0);
	t->nodes += ev->capturing && call_does(ev, DOES_LAUNCH);
	t->launches += call_launches(ev);
	t->graph_launches += call_launches_graph(ev);
	if (call_does(ev, DOES_COPY) && call_ran(ev) && ev->has & HAS_SIZE)
		t->bytes[ev->dir] += ev->size;
}

static void on_driver(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct cmd_metrics *c;
	char name[sizeof(c->name)] = {0};

	if (strcmp(ev->op, "ioctl"))
		return;
	snprintf(name, sizeof(name), "%s", ev->name);
	c = cmd_metrics_table__find(&t->cmds, &name);
	if (!c && metrics__take(m, t, 1))
		c = metrics__made(m, t, 1, cmd_metrics_table__new(&t->cmds, &name));
	if (!c)
		return;
	c->cnt++;
	c->total_ns += event_duration_ns(ev);
}

static void on_ctxsw(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct gpu_metrics *g;
	char bus[sizeof(g->bus)] = {0};

	snprintf(bus, sizeof(bus), "%s", ev->ctxsw.gpu);
	g = gpu_metrics_table__find(&t->resident_on, &bus);
	if (!g && metrics__take(m, t, 2))
		g = metrics__made(m, t, 2, gpu_metrics_table__new(&t->resident_on, &bus));
	if (!g)
		return;
	g->cnt += !ev->ctxsw.truncated_start;
	g->total_ns += event_duration_ns(ev);
}

static void on_run(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct run_key key = {.device = ev->gpu.device};
	struct run_metrics *r;

	strncpy(key.op, ev->op, sizeof(key.op) - 1);
	r = run_metrics_table__find(&t->runs, &key);
	if (!r && metrics__take(m, t, 2))
		r = metrics__made(m, t, 2, run_metrics_table__new(&t->runs, &key));
	if (!r)
		return;
	r->cnt++;
	r->total_ns += event_duration_ns(ev);
	if (gpu_is_collective(ev) && (r->collective_ns || metrics__take(m, t, 1)))
		r->collective_ns += event_duration_ns(ev);
}

static void on_xid(struct metrics *m, const struct trace_event *ev)
{
	char gpu[sizeof(m->xids[0].gpu)];
	unsigned i = 0;

	gpus_bus(ev->xid.gpu ?: "", gpu, sizeof(gpu));
	while (i < m->xid_cnt && (m->xids[i].number != ev->xid.xid || strcmp(m->xids[i].gpu, gpu)))
		i++;
	if (i == METRICS_XIDS) {
		m->rejected++;
		return;
	}
	if (i == m->xid_cnt) {
		m->xids[m->xid_cnt++].number = ev->xid.xid;
		strcpy(m->xids[i].gpu, gpu);
	}
	m->xids[i].cnt++;
}

static struct target_gpu *target_gpu_of(struct metrics_target *t, unsigned gpu)
{
	for (struct target_gpu *g = t->gpus; g < t->gpus + t->gpu_cnt; g++)
		if (g->gpu == gpu)
			return g;
	return NULL;
}

/* Adds a GPU with three series; NULL: no room. */
static struct target_gpu *new_target_gpu(struct metrics *m, struct metrics_target *t, unsigned gpu)
{
	if (!t->gpus)
		t->gpus = calloc(TARGET_GPUS_MAX, sizeof(*t->gpus));
	if (!t->gpus || t->gpu_cnt == TARGET_GPUS_MAX || !metrics__take(m, t, 3))
		return NULL;
	t->gpus[t->gpu_cnt].gpu = gpu;
	return &t->gpus[t->gpu_cnt++];
}

/* Process values come before the sample to which they belong. */
static void on_gpu_process(struct metrics *m, struct metrics_target *t, unsigned gpu,
			   const struct event_gpu_stats *x)
{
	struct target_gpu *g = target_gpu_of(t, gpu) ?: new_target_gpu(m, t, gpu);

	if (!g)
		return;
	g->next_memory += x->memory_used.v;
	g->next_util += x->sm_util.v;
}

/* Divides the energy since the previous sample: idle power, and the rest by SM time. What ran
 * without a known process belongs to the others. */
static void divide_energy(struct metrics *m, struct gpu_sample *s)
{
	unsigned gpu = s - m->gpus.of;
	double all = s->rise_mj / 1e3, seconds = s->period_ns / 1e9, idle;
	struct target_gpu *others = target_gpu_of(&m->others, gpu);
	uint64_t util = others ? others->next_util : 0;

	hash_each (t, &m->targets) {
		struct target_gpu *g = target_gpu_of(t, gpu);

		util += g ? g->next_util : 0;
	}
	if (!util && !s->is_used) {
		s->idle_s += seconds;
		s->idle_j += all;
		s->idle_joules += all;
		return;
	}
	idle = s->idle_s ? s->idle_j / s->idle_s * seconds : 0;
	idle = idle < all ? idle : all;
	s->idle_joules += idle;
	hash_each (t, &m->targets) {
		struct target_gpu *g = target_gpu_of(t, gpu);

		if (g && g->next_util)
			g->joules += (all - idle) * g->next_util / util;
	}
	others = others ?: !util ? new_target_gpu(m, &m->others, gpu) : NULL;
	if (others)
		others->joules += (all - idle) * (util ? (double)others->next_util / util : 1);
}

static void end_round(struct metrics_target *t, unsigned gpu)
{
	for (struct target_gpu *g = t->gpus; g < t->gpus + t->gpu_cnt; g++) {
		if (g->gpu != gpu)
			continue;
		g->memory = g->next_memory;
		g->util = g->next_util;
		g->next_memory = g->next_util = 0;
	}
}

static void on_gpu_stats(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct gpu_sample *g = gpu_samples__event(&m->gpus, ev);

	if (g && t && !strcmp(ev->op, "process"))
		on_gpu_process(m, t, g - m->gpus.of, &ev->gpu_stats);
	if (!g || strcmp(ev->op, "sample"))
		return;
	divide_energy(m, g);
	hash_each (x, &m->targets)
		end_round(x, g - m->gpus.of);
	end_round(&m->others, g - m->gpus.of);
}

void metrics__event(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	if (ev->kind == EVENT_XID)
		on_xid(m, ev);
	else if (ev->kind == EVENT_GPU_STATS)
		on_gpu_stats(m, t, ev);
	else if (ev->kind == EVENT_GPU_METRICS)
		gpu_samples__hardware(&m->gpus, ev);
	else if (t && ev->kind == EVENT_CALL && ev->fn)
		on_call(m, t, ev);
	else if (t && ev->kind == EVENT_DRIVER)
		on_driver(m, t, ev);
	else if (t && ev->kind == EVENT_CTXSW)
		on_ctxsw(m, t, ev);
	else if (t && ev->kind == EVENT_GPU)
		on_run(m, t, ev);
}

void metrics__errors(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
		     int32_t result, uint64_t cnt)
{
	add_error(m, t, fn, result, cnt);
}

static void add_count(struct metrics_fn *f, uint64_t returned, const struct ct_count *delta)
{
	f->calls += returned + delta->entered + delta->unfinished + delta->abandoned;
	f->timed += returned;
	f->total_ns += delta->total_ns;
	f->errors += delta->errors;
	if (delta->max_ns > f->max_ns)
		f->max_ns = delta->max_ns;
}

void metrics__counts(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
		     const struct ct_count *delta)
{
	struct fn_metrics *f = fn_of(m, t, fn);
	const struct op_desc *op = &op_desc[fn->op];
	struct hist *h = duration_of(m, t, fn);
	uint64_t calls = 0;

	for (unsigned i = 0; i < CT_HIST_CNT; i++) {
		calls += delta->hist[i];
		if (h && delta->hist[i])
			h->cnt[bucket_of(ct_hist_floor(i))] += delta->hist[i];
	}
	if (h)
		h->sum_ns += delta->total_ns;
	if (f)
		add_count(&f->sums, calls, delta);
	calls += delta->entered + delta->unfinished + delta->abandoned;
	/* A counted copy has only its function. */
	if (op->does & DOES_COPY)
		t->bytes[op->dir] += delta->bytes;
	/* A failed launch executed nothing. */
	calls -= delta->errors < calls ? delta->errors : calls;
	add_collectives(m, t, fn, calls, delta->total_ns, 0);
	if (op->does & DOES_LAUNCH)
		t->launches += calls;
	else if (op->does & DOES_LAUNCH_GRAPH)
		t->graph_launches += calls;
}

void metrics__memory(struct metrics_target *t, const struct mem_totals *before,
		     const struct mem_totals *now)
{
	for (int i = 0; i < MEM_KIND_CNT; i++) {
		t->mem[i] += now->bytes[i] - before->bytes[i];
		if (t->mem[i] > t->peak[i])
			t->peak[i] = t->mem[i];
	}
}
