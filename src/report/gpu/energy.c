/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "energy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/devices.h"
#include "report/collect.h"
#include "report/iter/iter.h"
#include "report/serving/serving.h"
#include "report/time/stage.h"
#include "util/memlimit.h"
#include "util/order.h"

static void copy(char *to, size_t size, const char *from)
{
	if (from)
		snprintf(to, size, "%s", from);
}

static void reject(struct energy *e)
{
	e->rejected_cnt++;
	memlimit_reject(MEMLIMIT_DEVICES);
}

/* --- GPUs and their samples --- */

static struct energy_gpu *gpu_of_stats(struct energy *e, const struct trace_event *ev)
{
	struct energy_gpu *g;

	for (unsigned i = 0; i < e->gpu_cnt; i++)
		if (e->gpus[i]->number == ev->gpu_stats.gpu.v && e->gpus[i]->trace == ev->trace)
			return e->gpus[i];
	g = e->gpu_cnt < ENERGY_GPUS ? calloc(1, sizeof(*g)) : NULL;
	if (!g) {
		reject(e);
		return NULL;
	}
	g->number = ev->gpu_stats.gpu.v;
	g->trace = ev->trace;
	g->minor = UINT32_MAX;
	g->stride = 1;
	return e->gpus[e->gpu_cnt++] = g;
}

/* Joins samples in pairs: the later one of two stays. */
static void join_samples(struct energy_gpu *g)
{
	unsigned n = 1;

	for (unsigned i = 2; i < g->cnt; i += 2) {
		bool is_used = g->samples[i - 1].is_used || g->samples[i].is_used;

		g->samples[n] = g->samples[i];
		g->samples[n++].is_used = is_used;
	}
	g->cnt = n;
	g->stride *= 2;
}

static void add_sample(struct energy *e, struct energy_gpu *g, uint64_t ns, uint64_t mj,
		       bool is_used)
{
	struct energy_sample *grown, *s;
	/* The counter begins at zero when the driver is loaded. */
	double rise = g->has_energy && mj > g->last_mj ? mj - g->last_mj : 0;

	g->has_energy = true;
	g->last_mj = mj;
	s = g->cnt ? &g->samples[g->cnt - 1] : NULL;
	if (s && ns <= s->ns)
		return;
	if (s && g->cnt > 1 && ++g->skipped < g->stride) {
		*s = (struct energy_sample){ns, s->mj + rise, s->is_used || is_used};
		return;
	}
	g->skipped = 0;
	if (g->cnt == ENERGY_SAMPLES)
		join_samples(g);
	grown = grow(g->samples, &g->cap, g->cnt + 1, sizeof(*grown), MEMLIMIT_DEVICES);
	if (!grown) {
		reject(e);
		return;
	}
	g->samples = grown;
	g->samples[g->cnt] = (struct energy_sample){
		ns, (g->cnt ? g->samples[g->cnt - 1].mj : 0) + rise, is_used};
	g->cnt++;
}

/* --- GPU time of processes --- */

static struct energy_worker *worker_of(struct energy *e, unsigned gpu, uint32_t pid)
{
	struct energy_worker *w;

	for (unsigned i = 0; i < e->worker_cnt; i++)
		if (e->workers[i]->gpu == gpu && e->workers[i]->pid == pid)
			return e->workers[i];
	w = e->worker_cnt < ENERGY_WORKERS ? calloc(1, sizeof(*w)) : NULL;
	if (!w) {
		reject(e);
		return NULL;
	}
	w->gpu = gpu;
	w->pid = pid;
	return e->workers[e->worker_cnt++] = w;
}

static void widen(struct energy_bins *b)
{
	for (unsigned i = 0; i < ENERGY_BINS / 2; i++)
		b->ns[i] = b->ns[2 * i] + b->ns[2 * i + 1];
	memset(b->ns + ENERGY_BINS / 2, 0, ENERGY_BINS / 2 * sizeof(*b->ns));
	b->width *= 2;
}

/* Adds share of the time from start to end. */
static void add_time(struct energy *e, struct energy_worker *w, enum energy_source source,
		     uint64_t start, uint64_t end, double share)
{
	struct energy_bins *b = &w->bins[source];

	if (!b->ns) {
		b->ns = memlimit_new(MEMLIMIT_DEVICES, ENERGY_BINS * sizeof(*b->ns));
		b->origin = e->gpus[w->gpu]->samples[0].ns;
		b->width = ENERGY_BIN_NS;
		if (!b->ns) {
			reject(e);
			return;
		}
	}
	start = start < b->origin ? b->origin : start;
	if (end <= start)
		return;
	while ((end - b->origin) / b->width >= ENERGY_BINS)
		widen(b);
	for (uint64_t at = start, part; at < end; at += part) {
		uint64_t past = at - b->origin, left = b->width - past % b->width;

		part = end - at < left ? end - at : left;
		b->ns[past / b->width] += share * part;
	}
}

static void on_stats(struct energy *e, const struct trace_event *ev)
{
	const struct event_gpu_stats *x = &ev->gpu_stats;
	struct energy_gpu *g = x->gpu.known ? gpu_of_stats(e, ev) : NULL;
	struct energy_worker *w;
	unsigned i = 0;

	if (!g)
		return;
	/* A MIG device is a part of the GPU of its number; the whole has the energy. */
	if (!x->gpu_instance.known && !strcmp(ev->op, "device")) {
		copy(g->uuid, sizeof(g->uuid), x->uuid);
		copy(g->pci, sizeof(g->pci), x->pci);
		copy(g->model, sizeof(g->model), x->model);
		if (x->minor.known)
			g->minor = x->minor.v;
	} else if (!x->gpu_instance.known && !strcmp(ev->op, "sample")) {
		if (x->energy_j.known)
			add_sample(e, g, ev->start_ns, x->energy_j.v,
				   x->graphics_active.known ? x->graphics_active.v
							    : x->util.known && x->util.v);
		g->before_ns = g->sampled_ns;
		g->sampled_ns = ev->start_ns;
	} else if (!strcmp(ev->op, "process") && g->cnt && x->sm_util.known) {
		/* Its values come at the time of the sample that ends their interval. */
		while (e->gpus[i] != g)
			i++;
		w = worker_of(e, i, ev->pid);
		if (!w)
			return;
		copy(w->comm, sizeof(w->comm), ev->comm);
		add_time(e, w, ENERGY_NVML,
			 g->sampled_ns < ev->start_ns ? g->sampled_ns : g->before_ns, ev->start_ns,
			 fmin(x->sm_util.v / 1e5, 1));
	}
}

static struct energy_gpu *only_gpu(const struct energy *e, unsigned trace, unsigned *at)
{
	struct energy_gpu *g = NULL;

	for (unsigned i = 0; i < e->gpu_cnt; i++) {
		if (e->gpus[i]->trace != trace)
			continue;
		if (g)
			return NULL;
		g = e->gpus[ *at = i];
	}
	return g;
}

/* Without a UUID, the GPU is known if there is only one. */
static struct energy_gpu *gpu_of_work(const struct energy *e, const struct trace_event *ev,
				      unsigned *at)
{
	const struct device *d = ev->device;

	for (unsigned i = 0; d && *d->uuid && i < e->gpu_cnt; i++)
		if (!strcmp(e->gpus[i]->uuid, d->uuid))
			return e->gpus[*at = i];
	return !d || !*d->uuid ? only_gpu(e, ev->trace, at) : NULL;
}

static void on_work(struct energy *e, const struct trace_event *ev)
{
	struct energy_worker *w;
	struct energy_gpu *g;
	unsigned at = 0;

	g = gpu_of_work(e, ev, &at);
	w = g && g->cnt ? worker_of(e, at, ev->pid) : NULL;
	if (!w)
		return;
	copy(w->comm, sizeof(w->comm), ev->comm);
	add_time(e, w, ENERGY_EXECUTIONS, ev->start_ns, ev->end_ns, 1);
}

static void on_slice(struct energy *e, const struct trace_event *ev)
{
	struct energy_worker *w = NULL;

	for (unsigned i = 0; i < e->gpu_cnt && !w; i++)
		if (e->gpus[i]->trace == ev->trace && e->gpus[i]->minor == ev->ctxsw.minor &&
		    e->gpus[i]->cnt)
			w = worker_of(e, i, ev->pid);
	if (!w)
		return;
	copy(w->comm, sizeof(w->comm), ev->comm);
	add_time(e, w, ENERGY_SWITCHES, ev->start_ns, ev->end_ns, 1);
}

static void energy_event(void *a, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU_STATS)
		on_stats(a, ev);
	else if (ev->kind == EVENT_GPU)
		on_work(a, ev);
	else if (ev->kind == EVENT_CTXSW)
		on_slice(a, ev);
}

/* --- results --- */

/* GPU time until ns. */
static double time_until(const struct energy_bins *b, uint64_t ns)
{
	uint64_t i, rest;
	double before;

	if (ns <= b->origin)
		return 0;
	i = (ns - b->origin) / b->width;
	if (i >= ENERGY_BINS)
		return b->ns[ENERGY_BINS - 1];
	rest = ns - b->origin - i * b->width;
	before = i ? b->ns[i - 1] : 0;
	return before + (b->ns[i] - before) * rest / b->width;
}

static double time_between(const struct energy_bins *b, uint64_t from, uint64_t to)
{
	return b ? time_until(b, to) - time_until(b, from) : 0;
}

/* Log of switches: only where it shows that several processes share the GPU, since a resident
 * context may have no work. */
static void choose_source(struct energy *e, unsigned gpu)
{
	unsigned cnt[ENERGY_SOURCE_CNT] = {0};
	struct energy_gpu *g = e->gpus[gpu];

	for (unsigned i = 0; i < e->worker_cnt; i++)
		for (int s = 0; e->workers[i]->gpu == gpu && s < ENERGY_SOURCE_CNT; s++)
			cnt[s] += e->workers[i]->bins[s].ns != NULL;
	g->source = cnt[ENERGY_SWITCHES] > 1 ? ENERGY_SWITCHES
		    : cnt[ENERGY_EXECUTIONS] ? ENERGY_EXECUTIONS
					     : ENERGY_NVML;
	for (unsigned i = 0; i < e->worker_cnt; i++) {
		struct energy_worker *w = e->workers[i];

		if (w->gpu != gpu)
			continue;
		w->by = &w->bins[g->source];
		/* A process that is not traced. */
		if (!w->by->ns && g->source == ENERGY_EXECUTIONS)
			w->by = &w->bins[ENERGY_NVML];
		if (!w->by->ns) {
			w->by = NULL;
			continue;
		}
		for (unsigned b = 1; b < ENERGY_BINS; b++)
			w->by->ns[b] += w->by->ns[b - 1];
	}
}

static double work_of(const struct energy *e, unsigned gpu, uint64_t from, uint64_t to)
{
	double ns = 0;

	for (unsigned i = 0; i < e->worker_cnt; i++)
		if (e->workers[i]->gpu == gpu)
			ns += time_between(e->workers[i]->by, from, to);
	return ns;
}

static double joules_of(const struct energy_gpu *g, unsigned i)
{
	return (g->samples[i].mj - g->samples[i - 1].mj) / 1e3;
}

static double seconds_of(const struct energy_gpu *g, unsigned i)
{
	return (g->samples[i].ns - g->samples[i - 1].ns) / 1e9;
}

/* Divides each interval. */
static void divide(struct energy *e, unsigned gpu)
{
	struct energy_gpu *g = e->gpus[gpu];
	double idle_s = 0, idle_j = 0;

	g->idle_watts = -1;
	g->rates = calloc(g->cnt + 1, sizeof(*g->rates));
	if (!g->rates)
		return;
	for (unsigned i = 1; i < g->cnt; i++) {
		const struct energy_sample *s = &g->samples[i];

		/* rates has the GPU time at first. */
		g->rates[i] = work_of(e, gpu, s[-1].ns, s->ns);
		if (g->rates[i] < 1 && !s->is_used) {
			idle_s += seconds_of(g, i);
			idle_j += joules_of(g, i);
		}
	}
	if (idle_s)
		g->idle_watts = idle_j / idle_s;
	for (unsigned i = 1; i < g->cnt; i++) {
		double all = joules_of(g, i),
		       idle = fmin(all, fmax(g->idle_watts, 0) * seconds_of(g, i));

		g->joules += all;
		if (g->rates[i] < 1 && !g->samples[i].is_used)
			idle = all;
		g->idle_joules += idle;
		if (g->rates[i] < 1)
			g->other_joules += all - idle;
		g->rates[i] = g->rates[i] < 1 ? 0 : (all - idle) / g->rates[i];
	}
}

/* The first sample after ns. */
static unsigned sample_after(const struct energy_gpu *g, uint64_t ns)
{
	return COUNT_LEADING(i, g->cnt, g->samples[i].ns <= ns);
}

/* What the process used between these times. */
static double used(const struct energy *e, const struct energy_worker *w, uint64_t from,
		   uint64_t to)
{
	const struct energy_gpu *g = e->gpus[w->gpu];
	double joules = 0;

	if (!w->by || !g->rates || g->cnt < 2)
		return 0;
	for (unsigned i = sample_after(g, from); i < g->cnt; i++) {
		uint64_t begin = i ? g->samples[i - 1].ns : to, end = g->samples[i].ns;

		if (begin >= to)
			break;
		joules += g->rates[i] *
			  time_between(w->by, begin > from ? begin : from, end < to ? end : to);
	}
	return joules;
}

/* What the GPU used until ns, by its counter. */
static double counted(const struct energy_gpu *g, uint64_t ns)
{
	unsigned i = sample_after(g, ns);
	const struct energy_sample *s = &g->samples[i];

	if (!i || !g->cnt)
		return 0;
	if (i == g->cnt)
		return s[-1].mj / 1e3;
	return (s[-1].mj + (s->mj - s[-1].mj) * (ns - s[-1].ns) / (s->ns - s[-1].ns)) / 1e3;
}

static void sum_parts(struct energy *e)
{
	static const char *const names[] = {"start-up", "steady state", "end"};
	uint64_t first = UINT64_MAX, last = 0, at[ENERGY_RUN_PARTS + 1];
	struct stage_result stages;

	stage_result(e->r, &stages);
	for (unsigned i = 0; i < e->gpu_cnt; i++) {
		const struct energy_gpu *g = e->gpus[i];

		if (g->cnt < 2)
			continue;
		first = g->samples[0].ns < first ? g->samples[0].ns : first;
		last = g->samples[g->cnt - 1].ns > last ? g->samples[g->cnt - 1].ns : last;
	}
	if (!stages.run_to_ns || stages.run_from_ns >= last || stages.run_to_ns <= first)
		return;
	at[0] = first;
	at[1] = stages.run_from_ns > first ? stages.run_from_ns : first;
	at[2] = stages.run_to_ns < last ? stages.run_to_ns : last;
	at[3] = last;
	for (unsigned p = 0; p < ENERGY_RUN_PARTS; p++) {
		e->parts[p] = (struct energy_part){names[p], at[p + 1] - at[p], 0};
		for (unsigned i = 0; i < e->gpu_cnt; i++)
			e->parts[p].joules +=
				counted(e->gpus[i], at[p + 1]) - counted(e->gpus[i], at[p]);
	}
}

static void add_steps(struct energy *e, struct energy_worker *w)
{
	struct iter_result it;

	iter_result(e->r, &it);
	if (!it.count || it.pid != w->pid)
		iter_of_process(e->r, w->pid, &it);
	if (it.count <= it.warmup || !it.steady_ns)
		return;
	w->steps = it.count - it.warmup;
	w->step_joules = used(e, w, it.steady_ns, it.last_ns) / w->steps;
}

static void add_tokens(struct energy *e)
{
	struct serving_result s;
	struct serving_span span;

	serving_result(e->r, &s);
	if (!s.found)
		return;
	e->tokens[0] = (struct energy_tokens){
		.name = "prefill", .steps = s.prefill.cnt, .ns = s.prefill.ns};
	e->tokens[1] =
		(struct energy_tokens){.name = "decode", .steps = s.decode.cnt, .ns = s.decode.ns};
	/* Steps of an unknown number of tokens would make a token look expensive. */
	e->tokens[0].tokens = s.prefill.tokens_cnt == s.prefill.cnt ? s.prefill.tokens : 0;
	e->tokens[1].tokens = s.decode.tokens_cnt == s.decode.cnt ? s.decode.tokens : 0;
	for (unsigned i = 0; i < e->worker_cnt; i++) {
		const struct energy_worker *w = e->workers[i];
		double idle = fmax(e->gpus[w->gpu]->idle_watts, 0);

		if (w->pid != s.pid || !w->by)
			continue;
		for (uint64_t n = 0; serving_step_at(e->r, n, &span); n++)
			if (span.is_prefill || span.is_decode)
				e->tokens[span.is_decode].joules +=
					used(e, w, span.begin_ns, span.end_ns);
		for (int p = 0; p < 2; p++) {
			e->tokens[p].idle_joules += idle * e->tokens[p].ns / 1e9;
			e->tokens[p].gpus++;
		}
	}
}

static int by_joules(const void *a, const void *b)
{
	const struct energy_worker *x = *(struct energy_worker *const *)a;
	const struct energy_worker *y = *(struct energy_worker *const *)b;

	return DESCENDING(x->joules, y->joules) ?: ASCENDING(x->pid, y->pid) ?: ASCENDING(x->gpu, y->gpu);
}

static void energy_finish(void *a)
{
	struct energy *e = a;

	for (unsigned i = 0; i < e->gpu_cnt; i++) {
		choose_source(e, i);
		divide(e, i);
	}
	for (unsigned i = 0; i < e->worker_cnt; i++) {
		struct energy_worker *w = e->workers[i];
		const struct energy_gpu *g = e->gpus[w->gpu];

		if (!w->by || g->cnt < 2)
			continue;
		w->gpu_ns = time_between(w->by, g->samples[0].ns, g->samples[g->cnt - 1].ns);
		w->joules = used(e, w, g->samples[0].ns, g->samples[g->cnt - 1].ns);
		add_steps(e, w);
	}
	qsort(e->workers, e->worker_cnt, sizeof(e->workers[0]), by_joules);
	sum_parts(e);
	add_tokens(e);
}

static void energy_free(void *a)
{
	struct energy *e = a;

	for (unsigned i = 0; i < e->worker_cnt; i++) {
		for (int s = 0; s < ENERGY_SOURCE_CNT; s++)
			memlimit_free(e->workers[i]->bins[s].ns);
		free(e->workers[i]);
	}
	for (unsigned i = 0; i < e->gpu_cnt; i++) {
		memlimit_free(e->gpus[i]->samples);
		free(e->gpus[i]->rates);
		free(e->gpus[i]);
	}
	free(e);
}

const struct analysis_ops energy_ops = {
	.name = "energy",
	.size = STATE_SIZE(struct energy),
	.event = energy_event,
	.finish = energy_finish,
	.section = &energy_table,
	.print = energy_print,
	.free = energy_free,
};
