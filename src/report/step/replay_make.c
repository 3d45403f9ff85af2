/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a replay needs to know of the dependency graph: the order of intervals, which one continued
 * after which, usual delays, the rate of copies, and where the probes of calls ran.
 */
#include "replay_priv.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define DELAY_NS 1000 /* if the trace has none */

#define PINNED_MIN 262144 /* smaller copies do not show the rate */

static const struct gpu_cost *cost_of(uint64_t capability)
{
	static const struct gpu_cost costs[] = {
#define GPU_COST(...) {__VA_ARGS__},
#include "gpu_costs.def"
#undef GPU_COST
	};
	const struct gpu_cost *c = costs;

	/* The last row is of any GPU. */
	while (c->capability > capability)
		c++;
	return c;
}

static int by_start(const void *a, const void *b)
{
	const struct step_ref *x = a, *y = b;

	return ASCENDING(x->start_ns, y->start_ns) ?: ASCENDING(x->seg, y->seg);
}

uint64_t step_ready_ns(const struct step_graph *g, const struct step_exec *x)
{
	uint64_t ns = 0;

	for (unsigned b = 0; b < 2; b++)
		if (x->before[b] != STEP_NONE && g->execs[x->before[b]].end_ns > ns)
			ns = g->execs[x->before[b]].end_ns;
	return ns;
}

bool step_is_late_launch(const struct step_graph *g, const struct step_exec *x)
{
	return step_requested_ns(g, x) > step_ready_ns(g, x);
}

/* The usual delays after an execution, and after a launch call. */
static void find_delays(struct step_sim *m)
{
	const struct step_graph *g = m->g;
	uint64_t *buf = malloc((g->exec_cnt + 1) * sizeof(*buf));
	uint32_t cnt[2] = {0, 0};

	m->delay_ns[0] = m->delay_ns[1] = DELAY_NS;
	for (unsigned late = 0; buf && late < 2; late++) {
		for (uint32_t i = 0; i < g->exec_cnt; i++) {
			const struct step_exec *x = &g->execs[i];
			uint64_t after;

			if (x->call == STEP_NONE || step_is_late_launch(g, x) != late)
				continue;
			after = late ? step_requested_ns(g, x) : step_ready_ns(g, x);
			buf[cnt[late]++] = x->start_ns > after ? x->start_ns - after : 0;
		}
		sort_values(buf, cnt[late]);
		if (cnt[late])
			m->delay_ns[late] = sorted_percentile(buf, cnt[late], 0.5);
	}
	free(buf);
}

/* The highest rate of copies that do not use pageable memory, in bytes per ns. */
static void find_rate(struct step_sim *m)
{
	const struct step_graph *g = m->g;
	double rate, best = 0;

	for (uint32_t i = 0; i < g->exec_cnt; i++) {
		const struct step_exec *x = &g->execs[i];
		const struct step_call *c = x->call == STEP_NONE ? NULL : &g->calls[x->call];

		if (!c || c->is_pageable || c->bytes < PINNED_MIN || x->end_ns <= x->start_ns)
			continue;
		rate = ratio_of(c->bytes, x->end_ns - x->start_ns);
		best = rate > best ? rate : best;
	}
	if (!(best > 0))
		best = m->cost->pinned_rate;
	m->pinned_rate = best;
}

static uint32_t seg_count(const struct step_graph *g)
{
	uint32_t cnt = 0;

	for (unsigned t = 0; t < g->thread_cnt; t++)
		if (g->threads[t].first + g->threads[t].cnt > cnt)
			cnt = g->threads[t].first + g->threads[t].cnt;
	return cnt;
}

/* Lists the executions of each call, and the calls that end in each interval. */
static void list_work(struct step_sim *m)
{
	const struct step_graph *g = m->g;

	for (uint32_t i = g->exec_cnt; i--;) {
		uint32_t call = g->execs[i].call;

		if (call == STEP_NONE)
			continue;
		m->exec_next[i] = m->exec_first[call];
		m->exec_first[call] = i;
	}
	for (uint32_t i = g->call_cnt; i--;) {
		const struct step_seg *seg;

		if (m->exec_first[i] == STEP_NONE)
			continue;
		seg = step_seg_before(g, step_thread_of(g, i), g->calls[i].end_ns);
		if (!seg)
			continue;
		m->call_next[i] = m->call_first[seg - g->segs];
		m->call_first[seg - g->segs] = i;
	}
}

/* A call's probes run before its start and after its end: in a call around it, or between calls. */
static void count_probes(struct step_sim *m)
{
	const struct step_graph *g = m->g;

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct step_call *c = &g->calls[i];
		unsigned thread = step_thread_of(g, i);
		const struct step_seg *last =
			g->segs + g->threads[thread].first + g->threads[thread].cnt - 1;
		const struct step_seg *before = step_seg_before(g, thread, c->start_ns);
		const struct step_seg *after = step_seg_before(g, thread, c->end_ns + 1);

		/* There are more threads than the graph has. */
		if (g->threads[thread].tid != c->tid)
			continue;
		if (before && before->end_ns >= c->start_ns)
			m->probes_in[before - g->segs]++;
		else if (before && before < last)
			m->probes_before[before + 1 - g->segs]++;
		if (after && after->end_ns > c->end_ns)
			m->probes_in[after - g->segs]++;
		else if (after && after < last)
			m->probes_before[after + 1 - g->segs]++;
	}
}

/* Finds the interval of another thread after which an interval continued. latest: of each thread,
 * its latest interval that began before. */
static uint32_t handed_over(const struct step_graph *g, const struct step_ref *ref,
			    const uint32_t *latest)
{
	uint32_t best = STEP_NONE;
	uint64_t end = latest[ref->thread] == STEP_NONE ? 0 : g->segs[latest[ref->thread]].end_ns;

	for (unsigned t = 0; t < g->thread_cnt; t++) {
		uint64_t other;

		if (t == ref->thread || (t && !g->threads[t].alternates) || latest[t] == STEP_NONE)
			continue;
		other = g->segs[latest[t]].end_ns;
		if (other > ref->start_ns || other <= end)
			continue;
		best = latest[t];
		end = other;
	}
	return best;
}

static void find_handed_over(struct step_sim *m)
{
	const struct step_graph *g = m->g;
	uint32_t latest[STEP_THREADS], next = 0;

	memset(latest, 0xff, sizeof(latest));
	for (uint32_t i = 0; i < m->order_cnt; i++) {
		const struct step_ref *ref = &m->order[i];

		for (; m->order[next].start_ns < ref->start_ns; next++)
			latest[m->order[next].thread] = m->order[next].seg;
		m->other[ref->seg] = ref->thread && !g->threads[ref->thread].alternates
					     ? STEP_NONE
					     : handed_over(g, ref, latest);
	}
}

struct step_sim *step_sim_new(const struct steps *s, const struct step_window *windows,
			      uint64_t cnt)
{
	const struct step_graph *g = &s->graph;
	uint32_t seg_cnt = seg_count(g);
	struct step_sim *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->s = s;
	m->cost = cost_of(s->capability);
	m->g = g;
	m->windows = windows;
	m->window_cnt = cnt;
	m->seg_cnt = seg_cnt;
	m->from_ns = g->calls[0].start_ns;
	m->order = calloc(seg_cnt + 1, sizeof(*m->order));
	m->other = malloc((seg_cnt + 1) * sizeof(*m->other));
	m->seg_end = calloc(seg_cnt + 1, sizeof(*m->seg_end));
	for (unsigned i = 0; i < SORT_CNT; i++)
		m->awaited[i] = malloc((g->exec_cnt + 1) * sizeof(*m->awaited[i]));
	m->probes_in = calloc(seg_cnt + 1, sizeof(*m->probes_in));
	m->probes_before = calloc(seg_cnt + 1, sizeof(*m->probes_before));
	m->idle = calloc(seg_cnt + 1, sizeof(*m->idle));
	m->group = calloc(seg_cnt + 1, sizeof(*m->group));
	m->is_in_graph = calloc(seg_cnt + 1, sizeof(*m->is_in_graph));
	m->exec_end = calloc(g->exec_cnt + 1, sizeof(*m->exec_end));
	m->done_ns = calloc(g->exec_cnt + 1, sizeof(*m->done_ns));
	m->exec_next = malloc((g->exec_cnt + 1) * sizeof(*m->exec_next));
	m->exec_first = malloc((g->call_cnt + 1) * sizeof(*m->exec_first));
	m->call_next = malloc((g->call_cnt + 1) * sizeof(*m->call_next));
	m->call_first = malloc((seg_cnt + 1) * sizeof(*m->call_first));
	if (!m->order || !m->other || !m->seg_end || !m->group || !m->idle || !m->awaited[0] ||
	    !m->awaited[1] || !m->awaited[2] || !m->probes_in || !m->probes_before ||
	    !m->is_in_graph || !m->exec_end || !m->done_ns || !m->exec_next || !m->exec_first ||
	    !m->call_next || !m->call_first) {
		step_sim_free(m);
		return NULL;
	}
	memset(m->exec_first, 0xff, (g->call_cnt + 1) * sizeof(*m->exec_first));
	memset(m->call_first, 0xff, (seg_cnt + 1) * sizeof(*m->call_first));
	list_work(m);
	for (unsigned t = 0; t < g->thread_cnt; t++) {
		for (uint32_t i = 0; i < g->threads[t].cnt; i++) {
			uint32_t seg = g->threads[t].first + i;

			m->order[m->order_cnt++] = (struct step_ref){g->segs[seg].start_ns, seg, t};
		}
	}
	qsort(m->order, m->order_cnt, sizeof(*m->order), by_start);
	find_handed_over(m);
	count_probes(m);
	find_delays(m);
	find_rate(m);
	return m;
}

void step_sim_free(struct step_sim *m)
{
	if (!m)
		return;
	free(m->order);
	free(m->other);
	free(m->seg_end);
	for (unsigned i = 0; i < 2; i++)
		free(m->lates[i].of);
	for (unsigned i = 0; i < SORT_CNT; i++)
		free(m->awaited[i]);
	free(m->probes_in);
	free(m->probes_before);
	free(m->idle);
	free(m->group);
	free(m->is_in_graph);
	free(m->exec_end);
	free(m->done_ns);
	free(m->exec_next);
	free(m->exec_first);
	free(m->call_next);
	free(m->call_first);
	free(m);
}
