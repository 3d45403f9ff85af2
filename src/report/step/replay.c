/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replays the dependency graph with other costs. Each interval of a thread begins after the one
 * before it, and takes as long as in the trace, times the change's factor; the time between two
 * intervals is treated in the same way. An execution begins after its launch call and after the
 * executions that it had to wait for, with the delay that it had in the trace. A blocked wait
 * returns when the execution that it waits for has ended. Order, streams and threads stay.
 */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

/* Measured on an H200, driver 580: docs/measured/step.md. */
#define GRAPH_LAUNCH_NS	    6000    /* cuGraphLaunch */
#define GRAPH_NODE_NS	    125	    /* of it, for each node */
#define GRAPH_GAP_NS	    1000000 /* a longer time between calls is work of the program, and stays */
#define GRAPH_NODE_DELAY_NS 300	    /* from the end of a node to the start of the next */

#define DELAY_NS 1000 /* if the trace has none */

#define PINNED_CALL_NS 5000 /* an asynchronous copy of pinned memory */
/* Bytes per ns, if the trace has no such copy: PCIe 4.0 x16, and PCIe 5.0 x16 from compute
 * capability 9.0 on (an H200: 55). */
#define PINNED_RATE    25.0
#define PINNED_RATE_90 53.0
#define PINNED_MIN     262144 /* smaller copies do not show the rate */

struct ref {
	uint64_t start_ns;
	uint32_t seg;
	uint16_t thread;
};

struct step_sim {
	const struct steps *s;
	const struct step_graph *g;
	const struct step_change *changes;
	unsigned change_cnt;
	bool has_graphs, pins, overlaps, batches; /* CHANGE_GRAPH, ... are among them */
	double pinned_rate;
	struct ref *order; /* intervals of all threads, by start */
	uint32_t order_cnt;
	uint32_t *other;      /* of each interval: one of another thread that it followed */
	uint64_t from_ns;     /* replayed times are since then */
	uint64_t delay_ns[2]; /* usual delay of executions: after another one, after the call */
	int64_t *seg_end;     /* of each interval: its replayed end */
	int64_t *exec_end;    /* of each execution */
	uint32_t *exec_first; /* lists of the executions of each call */
	uint32_t *exec_next;
	uint32_t *call_first; /* lists of the calls with executions that end in each interval */
	uint32_t *call_next;
	uint32_t *group;   /* of each interval: launches of the graph that it would begin; or 0 */
	bool *is_in_graph; /* of each interval: it would be part of a graph */
};

static int64_t scaled(uint64_t ns, double factor)
{
	return (int64_t)((double)ns * factor);
}

static bool is_fn(const struct step_call *c, const char *name)
{
	return !strcmp(c->fn->name, name);
}

/* Factor of the time between calls before an interval. */
static double gap_factor(const struct step_sim *m, const struct step_call *c, bool is_plan)
{
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if (ch->kind == CHANGE_HOST ||
		    (ch->kind == CHANGE_BEFORE && c && is_fn(c, ch->name)))
			factor *= ch->factor;
		if (ch->kind == CHANGE_PLANS && is_plan)
			factor = 0;
	}
	return factor;
}

/* Factor of the host time of an interval. */
static double host_factor(const struct step_sim *m, const struct step_call *c, bool is_plan)
{
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if (ch->kind == CHANGE_HOST)
			factor *= ch->factor;
		if (ch->kind == CHANGE_PLANS && is_plan)
			factor = 0;
		if ((ch->kind == CHANGE_DROP || ch->kind == CHANGE_CACHE) && c &&
		    is_fn(c, ch->name))
			factor = 0;
	}
	return factor;
}

static double gpu_factor(const struct step_sim *m)
{
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++)
		if (m->changes[i].kind == CHANGE_GPU)
			factor *= m->changes[i].factor;
	return factor;
}

static bool does_wait(const struct step_sim *m, const struct step_call *c)
{
	for (unsigned i = 0; i < m->change_cnt; i++)
		if (m->changes[i].kind == CHANGE_NO_WAIT && is_fn(c, m->changes[i].name))
			return false;
	return true;
}

static double exec_factor(const struct step_sim *m, const struct step_exec *x)
{
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if (ch->kind == CHANGE_GPU ||
		    (ch->kind == CHANGE_KERNEL && x->kernel && strstr(x->kernel, ch->name)))
			factor *= ch->factor;
		if (ch->kind == CHANGE_DROP && x->call != STEP_NONE &&
		    is_fn(&m->g->calls[x->call], ch->name))
			factor = 0;
	}
	return factor;
}

static int by_start(const void *a, const void *b)
{
	const struct ref *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns > y->start_ns ? 1 : -1;
	return (x->seg > y->seg) - (x->seg < y->seg);
}

/* The intervals of a thread in a step: [*first, *last). */
static void segs_of_step(const struct step_graph *g, const struct step_thread *t,
			 const struct step_window *w, uint32_t *first, uint32_t *last)
{
	uint32_t i = *last;

	while (i < t->first + t->cnt && g->segs[i].start_ns < w->begin_ns)
		i++;
	*first = i;
	while (i < t->first + t->cnt && g->segs[i].end_ns <= w->end_ns)
		i++;
	*last = i;
}

/* All that a thread does in a step would be one graph launch, waits included, except for the wait
 * at the end of the step. */
static void group_launches(struct step_sim *m, const struct step_thread *t,
			   const struct step_window *windows, uint64_t cnt)
{
	const struct step_graph *g = m->g;
	uint32_t first, last = t->first;

	for (uint64_t w = 0; w < cnt; w++) {
		uint32_t launches = 0, one = 0, end;

		segs_of_step(g, t, &windows[w], &first, &last);
		end = last;
		if (end > first && g->calls[g->segs[end - 1].call].waits)
			end--;
		for (uint32_t i = first; i < end; i++)
			if (g->calls[g->segs[i].call].launches)
				one = launches++ ? one : i;
		if (launches < 2)
			continue;
		m->group[one] = launches;
		memset(m->is_in_graph + first, true, end - first);
	}
}

/* The end of the executions that it had to wait for; 0: there are none. */
static uint64_t ready_ns(const struct step_graph *g, const struct step_exec *x)
{
	uint64_t ns = 0;

	for (unsigned b = 0; b < 2; b++)
		if (x->before[b] != STEP_NONE && g->execs[x->before[b]].end_ns > ns)
			ns = g->execs[x->before[b]].end_ns;
	return ns;
}

/* It waited for its launch call, not for other executions. */
static bool is_late_launch(const struct step_graph *g, const struct step_exec *x)
{
	return step_requested_ns(g, x) > ready_ns(g, x);
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

			if (x->call == STEP_NONE || is_late_launch(g, x) != late)
				continue;
			after = late ? step_requested_ns(g, x) : ready_ns(g, x);
			buf[cnt[late]++] = x->start_ns > after ? x->start_ns - after : 0;
		}
		sort_values(buf, cnt[late]);
		if (cnt[late])
			m->delay_ns[late] = sorted_percentile(buf, cnt[late], 0.5);
	}
	free(buf);
}

static bool is_input(const struct step_graph *g, const struct step_exec *x)
{
	return x->kind == STEP_COPY && x->call != STEP_NONE && g->calls[x->call].is_htod;
}

/* The execution to wait for instead of p if copies have their own stream: of the same sort. */
static uint32_t beside_copies(const struct step_sim *m, const struct step_exec *x, uint32_t p)
{
	const struct step_graph *g = m->g;
	bool is_copy = is_input(g, x);

	while (p != STEP_NONE && is_input(g, &g->execs[p]) != is_copy)
		p = g->execs[p].before[0];
	return p;
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
		best = m->s->capability >= 90 ? PINNED_RATE_90 : PINNED_RATE;
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

/* Finds the interval of another thread after which an interval continued. latest: of each thread,
 * its latest interval that began before. */
static uint32_t handed_over(const struct step_graph *g, const struct ref *ref,
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
		const struct ref *ref = &m->order[i];

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
	m->g = g;
	m->from_ns = g->calls[0].start_ns;
	m->order = calloc(seg_cnt + 1, sizeof(*m->order));
	m->other = malloc((seg_cnt + 1) * sizeof(*m->other));
	m->seg_end = calloc(seg_cnt + 1, sizeof(*m->seg_end));
	m->group = calloc(seg_cnt + 1, sizeof(*m->group));
	m->is_in_graph = calloc(seg_cnt + 1, sizeof(*m->is_in_graph));
	m->exec_end = calloc(g->exec_cnt + 1, sizeof(*m->exec_end));
	m->exec_next = malloc((g->exec_cnt + 1) * sizeof(*m->exec_next));
	m->exec_first = malloc((g->call_cnt + 1) * sizeof(*m->exec_first));
	m->call_next = malloc((g->call_cnt + 1) * sizeof(*m->call_next));
	m->call_first = malloc((seg_cnt + 1) * sizeof(*m->call_first));
	if (!m->order || !m->other || !m->seg_end || !m->group || !m->is_in_graph || !m->exec_end ||
	    !m->exec_next || !m->exec_first || !m->call_next || !m->call_first) {
		step_sim_free(m);
		return NULL;
	}
	memset(m->exec_first, 0xff, (g->call_cnt + 1) * sizeof(*m->exec_first));
	memset(m->call_first, 0xff, (seg_cnt + 1) * sizeof(*m->call_first));
	list_work(m);
	for (unsigned t = 0; t < g->thread_cnt; t++) {
		for (uint32_t i = 0; i < g->threads[t].cnt; i++) {
			uint32_t seg = g->threads[t].first + i;

			m->order[m->order_cnt++] = (struct ref){g->segs[seg].start_ns, seg, t};
		}
		group_launches(m, &g->threads[t], windows, cnt);
	}
	qsort(m->order, m->order_cnt, sizeof(*m->order), by_start);
	find_handed_over(m);
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
	free(m->group);
	free(m->is_in_graph);
	free(m->exec_end);
	free(m->exec_next);
	free(m->exec_first);
	free(m->call_next);
	free(m->call_first);
	free(m);
}

/* requested: replayed time of its request; factor: of its call's host time. An execution has the
 * delay that it had in the trace after what it waited for there, and the usual one after other
 * things. */
static void replay_exec(struct step_sim *m, uint32_t i, int64_t requested, double factor,
			bool is_node, bool is_batch)
{
	const struct step_graph *g = m->g;
	const struct step_exec *x = &g->execs[i];
	const struct step_call *c = &g->calls[x->call];
	bool is_late = is_late_launch(g, x), is_pinned = m->pins && c->is_pageable;
	uint64_t ns;
	int64_t after_call = (int64_t)(x->start_ns - step_requested_ns(g, x));
	int64_t after_exec = (int64_t)(x->start_ns - ready_ns(g, x)), start;

	if (!is_late && after_call > (int64_t)m->delay_ns[1])
		after_call = (int64_t)m->delay_ns[1];
	if (is_late && after_exec > (int64_t)m->delay_ns[0])
		after_exec = (int64_t)m->delay_ns[0];
	if (is_node && after_exec > GRAPH_NODE_DELAY_NS)
		after_exec = GRAPH_NODE_DELAY_NS;
	if (is_batch)
		after_exec = 0;
	/* It may start before its call returns; until then, it waits for the host. */
	if (c->end_ns > x->start_ns)
		after_call =
			after_call < 0 ? -scaled(-after_call, factor) : scaled(after_call, factor);
	if (is_pinned && after_call < (int64_t)m->delay_ns[1])
		after_call = (int64_t)m->delay_ns[1];
	start = requested + after_call;
	for (unsigned b = 0; b < 2; b++) {
		uint32_t p = m->overlaps ? beside_copies(m, x, x->before[b]) : x->before[b];

		if (p != STEP_NONE && m->exec_end[p] + after_exec > start)
			start = m->exec_end[p] + after_exec;
	}
	ns = is_pinned || (is_batch && c->bytes) ? (uint64_t)(c->bytes / m->pinned_rate)
						 : x->end_ns - x->start_ns;
	m->exec_end[i] = start + scaled(ns, exec_factor(m, x));
}

/* Replays the executions of calls that end in an interval; end: its replayed end. */
static void replay_work(struct step_sim *m, uint32_t seg, int64_t end, double factor, bool is_node,
			bool is_batch)
{
	uint64_t seg_end = m->g->segs[seg].end_ns;

	for (uint32_t call = m->call_first[seg]; call != STEP_NONE; call = m->call_next[call]) {
		for (uint32_t i = m->exec_first[call]; i != STEP_NONE; i = m->exec_next[i]) {
			uint64_t at = step_requested_ns(m->g, &m->g->execs[i]);

			/* The end of a call is later only in damaged traces. */
			at = at < seg_end ? seg_end - at : 0;
			replay_exec(m, i, end - scaled(at, factor), factor, is_node, is_batch);
		}
	}
}

/* Its call follows another one of the same function, which a batch would join. */
static bool is_batched(const struct step_sim *m, const struct ref *ref)
{
	const struct step_graph *g = m->g;
	const struct step_call *c = &g->calls[g->segs[ref->seg].call], *prev;

	if (!m->batches || ref->seg == g->threads[ref->thread].first)
		return false;
	prev = &g->calls[g->segs[ref->seg - 1].call];
	for (unsigned i = 0; i < m->change_cnt; i++)
		if (m->changes[i].kind == CHANGE_BATCH && is_fn(c, m->changes[i].name) &&
		    is_fn(prev, m->changes[i].name))
			return true;
	return false;
}

static int64_t replayed_start(const struct step_sim *m, const struct ref *ref, bool is_node)
{
	const struct step_graph *g = m->g;
	const struct step_seg *seg = &g->segs[ref->seg];
	const struct step_seg *prev = ref->seg > g->threads[ref->thread].first ? seg - 1 : NULL;
	uint32_t number = m->other[ref->seg];
	const struct step_seg *other = number == STEP_NONE ? NULL : &g->segs[number];
	const struct step_seg *after = other ? other : prev;
	uint64_t gap;
	int64_t start;

	if (!after)
		return (int64_t)(seg->start_ns - m->from_ns);
	start = m->seg_end[after - g->segs];
	gap = seg->start_ns - after->end_ns;
	if ((!is_node || gap > GRAPH_GAP_NS) && !is_batched(m, ref))
		start += scaled(gap, gap_factor(m, &g->calls[seg->call], seg->is_plan_before));
	if (other && prev && m->seg_end[ref->seg - 1] > start)
		start = m->seg_end[ref->seg - 1];
	return start;
}

static void replay_seg(struct step_sim *m, const struct ref *ref)
{
	const struct step_graph *g = m->g;
	const struct step_seg *seg = &g->segs[ref->seg];
	const struct step_call *c = &g->calls[seg->call];
	bool is_node = m->has_graphs && m->is_in_graph[ref->seg];
	uint64_t until = step_blocked_until(m->s, seg->call), ns = seg->end_ns - seg->start_ns;
	uint32_t target = g->target[seg->call];
	bool is_batch = is_batched(m, ref);
	double factor = is_batch ? 0 : host_factor(m, c, seg->is_plan);
	int64_t start = replayed_start(m, ref, is_node), end = start;

	if (is_node) {
		if (m->group[ref->seg])
			end += GRAPH_LAUNCH_NS + (int64_t)m->group[ref->seg] * GRAPH_NODE_NS;
		replay_work(m, ref->seg, end, 0, true, false);
	} else if (m->pins && c->is_pageable && c->fn->is_async) {
		end += scaled(ns < PINNED_CALL_NS ? ns : PINNED_CALL_NS, factor);
		replay_work(m, ref->seg, end, factor, false, is_batch);
	} else if (until <= seg->start_ns) {
		end += scaled(ns, factor);
		replay_work(m, ref->seg, end, factor, false, is_batch);
		/* With other costs it may have to wait. */
		if (c->waits && target != STEP_NONE && does_wait(m, c) && m->exec_end[target] > end)
			end = m->exec_end[target];
	} else {
		replay_work(m, ref->seg, start + scaled(ns, factor), factor, false, is_batch);
		if (does_wait(m, c) && target == STEP_NONE) {
			end += scaled(ns, gpu_factor(m)); /* a trace without GPU times */
		} else if (does_wait(m, c)) {
			if (m->exec_end[target] > end)
				end = m->exec_end[target];
			end += seg->end_ns > until ? scaled(seg->end_ns - until, factor) : 0;
		}
	}
	m->seg_end[ref->seg] = end;
}

void step_replay(struct step_sim *m, const struct step_change *changes, unsigned cnt)
{
	const struct step_graph *g = m->g;

	m->changes = changes;
	m->change_cnt = cnt;
	m->has_graphs = m->pins = m->overlaps = m->batches = false;
	for (unsigned i = 0; i < cnt; i++) {
		m->has_graphs |= changes[i].kind == CHANGE_GRAPH;
		m->pins |= changes[i].kind == CHANGE_PINNED;
		m->overlaps |= changes[i].kind == CHANGE_OVERLAP;
		m->batches |= changes[i].kind == CHANGE_BATCH;
	}
	for (uint32_t i = 0; i < g->exec_cnt; i++)
		m->exec_end[i] = (int64_t)(g->execs[i].end_ns - m->from_ns);
	for (uint32_t i = 0; i < m->order_cnt; i++)
		replay_seg(m, &m->order[i]);
}

/* The number of executions that ended until then. */
static uint32_t ended_until(const struct step_graph *g, uint64_t ns)
{
	uint32_t lo = 0, hi = g->exec_cnt, middle;

	while (lo < hi) {
		middle = (lo + hi) / 2;
		if (g->execs[middle].end_ns <= ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo;
}

int64_t step_replayed(const struct step_sim *m, uint64_t ns)
{
	const struct step_seg *seg = step_seg_before(m->g, 0, ns);
	uint32_t ended = ended_until(m->g, ns);
	int64_t at;

	if (!seg)
		return (int64_t)(ns - m->from_ns);
	at = m->seg_end[seg - m->g->segs];
	if (seg->end_ns >= ns)
		at -= (int64_t)(seg->end_ns - ns);
	else
		at += scaled(ns - seg->end_ns, gap_factor(m, NULL, false));
	/* What the GPU had done by then is done, too. */
	if (ended && m->exec_end[ended - 1] > at)
		at = m->exec_end[ended - 1];
	return at;
}
