/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "decode/nv/nv_decode.h"
#include "model/call.h"
#include "model/gpu_busy.h"
#include "metrics_priv.h"
#include "util/plain.h"

/* Series guaranteed to a target; it gets more only while half of all are free. */
#define SERIES_SHARE 512

/* Takes n more series. Past the limit new ones are rejected and counted. */
static bool take_some(struct metrics *m, struct metrics_target *t, unsigned n)
{
	if (m->series + n > m->max_series ||
	    (t->series + n > SERIES_SHARE && m->series + n > m->max_series / 2)) {
		m->rejected++;
		return false;
	}
	m->series += n;
	t->series += n;
	return true;
}

const char *const metrics_gpu_lost[METRICS_GPU_LOST] = {"dropped", "untimed", "lost"};

static bool take_series(struct metrics *m, struct metrics_target *t)
{
	return take_some(m, t, 1);
}

struct metrics *metrics__new(uint64_t max_series)
{
	struct metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->max_series = max_series;
	m->others.key.command = m->others_name;
	strcpy(m->others_name, "(others)");
	m->others.key.namespace = m->others.key.pod = m->others.key.container = "";
	return m;
}

static void free_target(struct metrics_target *t)
{
	struct fn_metrics *f, *f2;
	struct error_metrics *e, *e2;
	struct cmd_metrics *c, *c2;
	struct gpu_metrics *g, *g2;
	struct run_metrics *r, *r2;
	struct coll_metrics *x, *x2;

	HASH_ITER (hh, t->fns, f, f2) {
		HASH_DEL(t->fns, f);
		free(f);
	}
	HASH_ITER (hh, t->errors, e, e2) {
		HASH_DEL(t->errors, e);
		free(e);
	}
	HASH_ITER (hh, t->cmds, c, c2) {
		HASH_DEL(t->cmds, c);
		free(c);
	}
	HASH_ITER (hh, t->resident_on, g, g2) {
		HASH_DEL(t->resident_on, g);
		free(g);
	}
	HASH_ITER (hh, t->runs, r, r2) {
		HASH_DEL(t->runs, r);
		free(r);
	}
	HASH_ITER (hh, t->colls, x, x2) {
		HASH_DEL(t->colls, x);
		free(x);
	}
	for (int api = 0; api < API_CNT; api++)
		for (int class = 0; class < CLASS_CNT; class ++)
			free(t->durations[api][class]);
	free(t->gpus);
}

void metrics__free(struct metrics *m)
{
	struct metrics_target *t, *next;

	if (!m)
		return;
	HASH_ITER (hh, m->targets, t, next) {
		HASH_DEL(m->targets, t);
		free_target(t);
		free(t->text);
		free(t);
	}
	free_target(&m->others);
	free(m);
}

/* The labels that identify a target. In a pod the container's id changes at each restart, its name
 * does not. */
static struct target_key key_of(const struct labels *l, const char *comm)
{
	return (struct target_key){
		.namespace = l->namespace,
		.pod = l->pod[0] ? l->pod : l->pod_uid,
		.container = l->container_name[0] ? l->container_name : l->container,
		.command = comm,
	};
}

/* Packs the texts, each with its NUL, as the key of the table. They come from programs and are made
 * valid for all outputs; two names never become one. */
static char *pack(struct target_key *k, size_t *len)
{
	const char **parts[] = {&k->namespace, &k->pod, &k->container, &k->command};
	char *text, *p;

	*len = 0;
	for (int i = 0; i < 4; i++)
		*len += PLAIN_NAME_MAX(strlen(*parts[i]));
	text = p = malloc(*len);
	if (!text)
		return NULL;
	for (int i = 0; i < 4; i++) {
		size_t n = plain_name(p, *parts[i]) + 1;

		*parts[i] = p;
		p += n;
	}
	*len = p - text;
	return text;
}

/* Drops the target that has had no process for the longest time: pods come and go. */
static bool drop_ended(struct metrics *m)
{
	struct metrics_target *t, *next, *oldest = NULL;

	HASH_ITER (hh, m->targets, t, next) {
		if (!t->processes && (!oldest || t->ended < oldest->ended))
			oldest = t;
	}
	if (!oldest)
		return false;
	m->series -= SERIES_OF_A_TARGET + oldest->series;
	HASH_DEL(m->targets, oldest);
	free_target(oldest);
	free(oldest->text);
	free(oldest);
	return true;
}

/* text: what key points to; owned by the target from now on. */
static struct metrics_target *make_target(struct metrics *m, struct target_key key, char *text,
					  size_t len)
{
	struct metrics_target *t;

	while (m->series + SERIES_OF_A_TARGET > m->max_series)
		if (!drop_ended(m))
			return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = key;
	t->text = text;
	HASH_ADD_KEYPTR(hh, m->targets, t->text, len, t);
	m->series += SERIES_OF_A_TARGET;
	return t;
}

/* A program may have the same name as the sum of the others. */
static bool is_others(const struct metrics *m, const struct target_key *k)
{
	return !strcmp(k->command, m->others.key.command) && !*k->namespace && !*k->pod &&
	       !*k->container;
}

struct metrics_target *metrics__get(struct metrics *m, const struct labels *l, const char *comm)
{
	struct target_key key = key_of(l, comm);
	struct metrics_target *t = NULL;
	size_t len;
	char *text = pack(&key, &len);

	if (text && is_others(m, &key))
		t = &m->others;
	else if (text)
		HASH_FIND(hh, m->targets, text, len, t);
	if (text && !t)
		t = make_target(m, key, text, len);
	if (!t || t->text != text)
		free(text);
	t = t ?: &m->others;
	t->processes++;
	return t;
}

struct metrics_target *metrics__others(struct metrics *m)
{
	return &m->others;
}

void metrics__put(struct metrics *m, struct metrics_target *t)
{
	if (t->processes && !--t->processes)
		t->ended = ++m->ended;
}

static struct fn_metrics **recent_fn(struct metrics_target *t, const struct api_fn *fn)
{
	return &t->recent[(uint32_t)((uintptr_t)fn >> 3) * 2654435761u >> (32 - FNS_RECENT_LOG)];
}

/* Finds or creates it; NULL when the limit is reached. */
static struct fn_metrics *fn_of(struct metrics *m, struct metrics_target *t,
				const struct api_fn *fn)
{
	struct fn_metrics **recent = recent_fn(t, fn), *f = *recent;

	if (f && f->fn == fn)
		return f;
	HASH_FIND_PTR(t->fns, &fn, f);
	if (!f && take_series(m, t) && (f = calloc(1, sizeof(*f)))) {
		f->fn = fn;
		HASH_ADD_PTR(t->fns, fn, f);
	}
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
	if (t->hist_cnt >= HISTS_OF_A_TARGET && !take_some(m, t, SERIES_OF_A_HIST))
		return NULL;
	*h = calloc(1, sizeof(**h));
	t->hist_cnt += *h != NULL;
	return *h;
}

/* The classic histogram has a bucket for each factor of four. Each of its limits is also a limit of
 * the fine histogram, so nothing is estimated. */
static unsigned bucket_of(uint64_t ns)
{
	unsigned i = ns < BUCKET_NS(0) ? 0 : (63 - __builtin_clzll(ns) - 10) / 2 + 1;

	return i < BUCKET_CNT ? i : BUCKET_CNT;
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
	HASH_FIND(hh, t->errors, &key, sizeof(key), e);
	if (!e) {
		if (!take_series(m, t) || !(e = calloc(1, sizeof(*e))))
			return;
		e->key = key;
		HASH_ADD(hh, t->errors, key, sizeof(e->key), e);
	}
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
	struct coll_metrics *x, like = {.op = fn->op};

	if (fn->class != CLASS_COLLECTIVE ||
	    (!op_does(fn->op, DOES_COLLECTIVE | DOES_PEER) && fn->op != OP_GROUP_END))
		return;
	HASH_FIND(hh, t->colls, &like.op, sizeof(like.op), x);
	if (!x) {
		/* One per line of the metric. */
		if (!cnt || !take_some(m, t, 3) || !(x = calloc(1, sizeof(*x))))
			return;
		x->op = like.op;
		HASH_ADD(hh, t->colls, op, sizeof(x->op), x);
	}
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
	char name[sizeof(c->name)];

	if (strcmp(ev->op, "ioctl"))
		return;
	snprintf(name, sizeof(name), "%s", ev->name);
	HASH_FIND_STR(t->cmds, name, c);
	if (!c) {
		if (!take_series(m, t) || !(c = calloc(1, sizeof(*c))))
			return;
		strcpy(c->name, name);
		HASH_ADD_STR(t->cmds, name, c);
	}
	c->cnt++;
	c->total_ns += event_duration_ns(ev);
}

static void on_ctxsw(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct gpu_metrics *g;
	char bus[sizeof(g->bus)];

	snprintf(bus, sizeof(bus), "%s", ev->ctxsw.gpu);
	HASH_FIND_STR(t->resident_on, bus, g);
	if (!g) {
		if (!take_some(m, t, 2) || !(g = calloc(1, sizeof(*g))))
			return;
		strcpy(g->bus, bus);
		HASH_ADD_STR(t->resident_on, bus, g);
	}
	g->cnt += !ev->ctxsw.truncated_start;
	g->total_ns += event_duration_ns(ev);
}

static void on_run(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	struct run_metrics *r, like = {.key.device = ev->gpu.device};

	strncpy(like.key.op, ev->op, sizeof(like.key.op) - 1);
	HASH_FIND(hh, t->runs, &like.key, sizeof(like.key), r);
	if (!r) {
		if (!take_some(m, t, 2) || !(r = calloc(1, sizeof(*r))))
			return;
		r->key = like.key;
		HASH_ADD(hh, t->runs, key, sizeof(r->key), r);
	}
	r->cnt++;
	r->total_ns += event_duration_ns(ev);
	if (gpu_is_collective(ev) && (r->collective_ns || take_series(m, t)))
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

/* Process values come before the sample to which they belong. */
static void on_gpu_process(struct metrics *m, struct metrics_target *t, unsigned gpu,
			   const struct event_gpu_stats *x)
{
	struct target_gpu *g = NULL;

	for (unsigned i = 0; i < t->gpu_cnt; i++)
		if (t->gpus[i].gpu == gpu)
			g = &t->gpus[i];
	if (!t->gpus)
		t->gpus = calloc(TARGET_GPUS_MAX, sizeof(*t->gpus));
	if (!g && t->gpus && t->gpu_cnt < TARGET_GPUS_MAX && take_series(m, t) &&
	    take_series(m, t)) {
		g = &t->gpus[t->gpu_cnt++];
		g->gpu = gpu;
	}
	if (!g)
		return;
	g->next_memory += x->memory_used.v;
	g->next_util += x->sm_util.v;
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
	const struct gpu_sample *g = gpu_samples__event(&m->gpus, ev);
	struct metrics_target *x, *next;

	if (g && t && !strcmp(ev->op, "process"))
		on_gpu_process(m, t, g - m->gpus.of, &ev->gpu_stats);
	if (!g || strcmp(ev->op, "sample"))
		return;
	HASH_ITER (hh, m->targets, x, next)
		end_round(x, g - m->gpus.of);
	end_round(&m->others, g - m->gpus.of);
}

void metrics__event(struct metrics *m, struct metrics_target *t, const struct trace_event *ev)
{
	if (ev->kind == EVENT_XID)
		on_xid(m, ev);
	else if (ev->kind == EVENT_GPU_STATS)
		on_gpu_stats(m, t, ev);
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

void metrics__each_fn(const struct metrics_target *t,
		      void (*fn)(void *ctx, const struct api_fn *api_fn,
				 const struct metrics_fn *f),
		      void *ctx)
{
	const struct fn_metrics *f, *next;

	HASH_ITER (hh, t->fns, f, next)
		fn(ctx, f->fn, &f->sums);
}

uint64_t metrics__launches(const struct metrics_target *t)
{
	return t->launches + t->graph_launches;
}

uint64_t metrics__copied(const struct metrics_target *t)
{
	uint64_t sum = 0;

	for (int i = COPY_NONE; i <= COPY_DIR_PEER; i++)
		sum += t->bytes[i];
	return sum;
}

uint64_t metrics__rejected(const struct metrics *m)
{
	return m->rejected;
}

static void forget_fn(struct metrics *m, struct metrics_target *t, const struct api_fn *fn)
{
	struct error_metrics *e, *next;
	struct fn_metrics *f;

	HASH_FIND_PTR(t->fns, &fn, f);
	if (f) {
		if (*recent_fn(t, fn) == f)
			*recent_fn(t, fn) = NULL;
		HASH_DEL(t->fns, f);
		free(f);
		m->series--;
		t->series--;
	}
	HASH_ITER (hh, t->errors, e, next) {
		if (e->key.fn != fn)
			continue;
		HASH_DEL(t->errors, e);
		free(e);
		m->series--;
		t->series--;
	}
}

void metrics__forget_fn(struct metrics *m, const struct api_fn *fn)
{
	struct metrics_target *t, *next;

	HASH_ITER (hh, m->targets, t, next)
		forget_fn(m, t, fn);
	forget_fn(m, &m->others, fn);
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
