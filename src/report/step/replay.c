/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replays the dependency graph with other costs. Each interval of a thread begins after the one
 * before it, and takes as long as in the trace, times the change's factor; the time between two
 * intervals is treated in the same way. An execution begins after its launch call and after the
 * executions that it had to wait for, with the delay that it had in the trace. A blocked wait
 * returns when the execution that it waits for has ended. Order, streams and threads stay the same.
 */
#include "replay_priv.h"

#include <stdlib.h>
#include <string.h>

#include "util/order.h"

#define GRAPH_GAP_NS 1000000 /* a longer time between calls is work of the program, and stays */

#define CALLS_BETWEEN 64 /* intervals in other calls between two calls that can be joined */

#define PINNED_CALL_NS 5000 /* an asynchronous copy of pinned memory */

/* A probe cannot take longer: the end line is damaged. */
#define PROBE_MAX_NS 1000000

static int64_t scaled(uint64_t ns, double factor)
{
	return (int64_t)((double)ns * factor);
}

/* Whether the name is a line of this frame, such as train.py:41. */
static bool is_line(const struct stack_frame *f, const char *name)
{
	const char *slash = f->module ? strrchr(f->module, '/') : NULL;
	const char *file = slash ? slash + 1 : f->module, *colon = strrchr(name, ':');
	size_t n = colon ? colon - name : 0;

	return file && n && strlen(file) == n && !strncmp(file, name, n) &&
	       strtoul(colon + 1, NULL, 10) == f->line;
}

bool step_is_fn(const struct step_call *c, const char *name)
{
	if (!strcmp(c->fn->name, name))
		return true;
	if (!strpbrk(name, ":."))
		return false;
	if (c->operator&& !strcmp(c->operator, name))
		return true;
	for (unsigned i = 0; c->stack && i < c->stack->frame_cnt; i++) {
		const struct stack_frame *f = &c->stack->frames[i];

		if (f->python && f->symbol && (!strcmp(f->symbol, name) || is_line(f, name)))
			return true;
	}
	return false;
}

/* Whether the call is one of this function, or within one. */
static bool is_in_fn(const struct step_graph *g, const struct step_call *c, const char *name)
{
	while (!step_is_fn(c, name) && c->outer != STEP_NONE)
		c = &g->calls[c->outer];
	return step_is_fn(c, name);
}

static bool is_topic(const struct step_change *ch, enum step_topic topic)
{
	return ch->kind == CHANGE_TOPIC && ch->topic == topic;
}

static bool has_topic(const struct step_call *c, const struct step_change *ch)
{
	return ch->kind == CHANGE_TOPIC && c->topics >> ch->topic & 1;
}

/* Whether the call takes no time and waits for nothing. */
static bool is_dropped(const struct step_call *c, const struct step_change *ch)
{
	return has_topic(c, ch) && ch->topic < STEP_TOPIC_WAIT;
}

/* Factor of this time between calls before an interval; NULL: after the last one. */
static double gap_factor(const struct step_sim *m, const struct step_seg *seg, uint64_t ns)
{
	const struct step_call *c = seg ? &m->g->calls[seg->call] : NULL;
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if (ch->kind == CHANGE_HOST ||
		    (ch->kind == CHANGE_BEFORE && c && step_is_fn(c, ch->name)))
			factor *= ch->factor;
		if (seg &&
		    ((ch->kind == CHANGE_PLANS && seg->is_plan_before) ||
		     (ch->kind == CHANGE_GAPS && seg->gap == ch->gap) ||
		     (is_topic(ch, STEP_TOPIC_BETWEEN) && ns > GRAPH_GAP_NS) ||
		     (is_topic(ch, STEP_TOPIC_IDLE) && m->idle[seg - m->g->segs] & IDLE_BEFORE)))
			factor = 0;
	}
	return factor;
}

/* Factor of the host time of an interval. */
static double host_factor(const struct step_sim *m, const struct step_seg *seg)
{
	const struct step_call *c = &m->g->calls[seg->call];
	double factor = 1;

	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if (ch->kind == CHANGE_HOST)
			factor *= ch->factor;
		if ((ch->kind == CHANGE_PLANS && seg->is_plan) || is_dropped(c, ch) ||
		    (is_topic(ch, STEP_TOPIC_IDLE) && m->idle[seg - m->g->segs] & IDLE_IN))
			factor = 0;
		if ((ch->kind == CHANGE_DROP || ch->kind == CHANGE_CACHE) &&
		    is_in_fn(m->g, c, ch->name))
			factor = 0;
	}
	return factor;
}

/* Sum of these times before ns. */
static uint64_t late_before(const struct step_lates *l, uint64_t ns)
{
	uint32_t n = COUNT_LEADING(i, l->cnt, l->of[i].wait.from_ns < ns);
	const struct step_late *last;

	if (!n)
		return 0;
	last = &l->of[n - 1];
	return last->before_ns + (ns < last->wait.to_ns ? ns : last->wait.to_ns) -
	       last->wait.from_ns;
}

/* The part of this time that a change saves, because ranks wait for a process in it. */
static uint64_t late_ns(const struct step_sim *m, bool is_own, uint64_t from_ns, uint64_t to_ns)
{
	const struct step_lates *l = &m->lates[is_own];

	return l->cnt ? late_before(l, to_ns) - late_before(l, from_ns) : 0;
}

/* Overhead of tracing in this time. */
static uint64_t overhead_ns(const struct step_sim *m, uint32_t probes, uint64_t ns)
{
	return probes * m->probe_ns < ns ? probes * m->probe_ns : ns;
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
	for (unsigned i = 0; i < m->change_cnt; i++) {
		const struct step_change *ch = &m->changes[i];

		if ((ch->kind == CHANGE_NO_WAIT && is_in_fn(m->g, c, ch->name)) ||
		    is_dropped(c, ch) || (has_topic(c, ch) && ch->topic == STEP_TOPIC_WAIT))
			return false;
	}
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
		    is_in_fn(m->g, &m->g->calls[x->call], ch->name))
			factor = 0;
	}
	return factor;
}

uint32_t step_first_seg(const struct step_graph *g, const struct step_thread *t, uint64_t ns)
{
	return t->first + COUNT_LEADING(i, t->cnt, g->segs[t->first + i].start_ns < ns);
}

/* All that a thread does in this time would be one graph launch, waits included, except for the
 * wait at its end. */
static void group_launches(struct step_sim *m, const struct step_thread *t, uint64_t from_ns,
			   uint64_t to_ns)
{
	const struct step_graph *g = m->g;
	uint32_t first = step_first_seg(g, t, from_ns), end = first, launches = 0, one = 0;

	while (end < t->first + t->cnt && g->segs[end].end_ns <= to_ns)
		end++;
	if (end > first && g->calls[g->segs[end - 1].call].waits)
		end--;
	for (uint32_t i = first; i < end; i++)
		if (g->calls[g->segs[i].call].launches)
			one = launches++ ? one : i;
	if (launches < 2)
		return;
	m->group[one] = launches;
	memset(m->is_in_graph + first, true, end - first);
}

static int by_thread(const void *a, const void *b)
{
	const struct step_range *x = a, *y = b;

	return ASCENDING(x->tid, y->tid) ?: ASCENDING(x->start_ns, y->start_ns)
		?: DESCENDING(x->end_ns, y->end_ns);
}

static bool is_grouped(const struct step_sim *m, const struct step_range *r)
{
	for (unsigned i = 0; i < m->change_cnt; i++)
		if (m->changes[i].kind == CHANGE_GRAPH && !strcmp(m->changes[i].name, r->name))
			return r->pid == m->g->calls[0].pid;
	return false;
}

/* Ranges inside others are part of their graphs. */
static void group_ranges(struct step_sim *m)
{
	const struct step_graph *g = m->g;
	const struct step_range *rows = m->s->ranges.rows, *last = NULL;
	struct step_range *ranges = malloc((m->s->ranges.cnt + 1) * sizeof(*ranges));
	uint32_t cnt = 0;
	unsigned t = 0;

	for (uint32_t i = 0; ranges && i < m->s->ranges.cnt; i++)
		if (is_grouped(m, &rows[i]))
			ranges[cnt++] = rows[i];
	if (cnt)
		qsort(ranges, cnt, sizeof(*ranges), by_thread);
	for (uint32_t i = 0; i < cnt; i++) {
		if (last && last->tid == ranges[i].tid && ranges[i].start_ns < last->end_ns)
			continue;
		last = &ranges[i];
		for (t = 0; t < g->thread_cnt && g->threads[t].tid != last->tid; t++)
			;
		if (t < g->thread_cnt)
			group_launches(m, &g->threads[t], last->start_ns, last->end_ns);
	}
	free(ranges);
}

static void group_all(struct step_sim *m)
{
	const struct step_graph *g = m->g;
	bool has_all = false;

	memset(m->group, 0, m->seg_cnt * sizeof(*m->group));
	memset(m->is_in_graph, 0, m->seg_cnt * sizeof(*m->is_in_graph));
	for (unsigned i = 0; i < m->change_cnt; i++)
		has_all |= m->changes[i].kind == CHANGE_GRAPH && !*m->changes[i].name;
	if (!has_all) {
		group_ranges(m);
		return;
	}
	for (unsigned t = 0; t < g->thread_cnt; t++)
		for (uint64_t w = 0; w < m->window_cnt; w++)
			group_launches(m, &g->threads[t], m->windows[w].begin_ns,
				       m->windows[w].end_ns);
}

static bool is_input(const struct step_graph *g, const struct step_exec *x)
{
	return x->kind == STEP_COPY && x->call != STEP_NONE && g->calls[x->call].is_htod;
}

/* Whether x does not wait for p, since work of one of the two sorts has its own stream. NCCL's
 * kernels wait for what they send. */
static bool is_beside(const struct step_sim *m, enum step_sort x, const struct step_exec *p)
{
	if (m->overlaps && (x == SORT_INPUT) != is_input(m->g, p))
		return true;
	return m->overlaps_comm && p->kind == STEP_COMMUNICATION && x != SORT_COMM;
}

static enum step_sort sort_of(const struct step_sim *m, const struct step_exec *x)
{
	return x->kind == STEP_COMMUNICATION ? SORT_COMM
	       : is_input(m->g, x)	     ? SORT_INPUT
					     : SORT_WORK;
}

/* Sets for each execution and each sort what an execution of this sort waits for instead of it: it,
 * or what came before it on its stream. */
static void find_awaited(struct step_sim *m)
{
	const struct step_graph *g = m->g;

	for (uint32_t i = 0; i < g->exec_cnt; i++) {
		uint32_t before = g->execs[i].before[0];

		for (unsigned sort = 0; sort < SORT_CNT; sort++)
			m->awaited[sort][i] = !is_beside(m, sort, &g->execs[i]) ? i
					      : before < i ? m->awaited[sort][before]
							   : STEP_NONE;
	}
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
	bool is_late = step_is_late_launch(g, x), is_pinned = m->pins && c->is_pageable;
	uint64_t ns, late;
	int64_t after_call = (int64_t)(x->start_ns - step_requested_ns(g, x));
	int64_t after_exec = (int64_t)(x->start_ns - step_ready_ns(g, x)), start;

	if (!is_late && after_call > (int64_t)m->delay_ns[1])
		after_call = (int64_t)m->delay_ns[1];
	if (is_late && after_exec > (int64_t)m->delay_ns[0])
		after_exec = (int64_t)m->delay_ns[0];
	if (is_node && after_exec > m->cost->delay_ns)
		after_exec = m->cost->delay_ns;
	if (is_batch)
		after_exec = 0;
	/* It may start before its call returns; until then, it waits for the host. */
	if (c->end_ns > x->start_ns)
		after_call =
			after_call < 0 ? -scaled(-after_call, factor) : scaled(after_call, factor);
	/* The driver copies pageable memory to its own buffer first. */
	if (is_pinned)
		after_call = (int64_t)m->delay_ns[1];
	start = requested + after_call;
	for (unsigned b = 0; b < 2; b++) {
		uint32_t p = x->before[b];

		if (p != STEP_NONE && (m->overlaps || m->overlaps_comm))
			p = m->awaited[sort_of(m, x)][p];

		if (p != STEP_NONE && m->exec_end[p] + after_exec > start)
			start = m->exec_end[p] + after_exec;
	}
	ns = is_pinned || (is_batch && c->bytes) ? (uint64_t)(c->bytes / m->pinned_rate)
						 : x->end_ns - x->start_ns;
	if (x->kind == STEP_COMMUNICATION) {
		late = late_ns(m, false, x->start_ns, x->end_ns);
		/* A small collective takes its latency, whatever its size. */
		ns = is_batch || late > ns ? 0 : ns - late;
	}
	m->exec_end[i] = start + scaled(ns, exec_factor(m, x));
	if (m->exec_end[i] > m->latest_end)
		m->latest_end = m->exec_end[i];
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

/* A batch or a fused kernel would join two calls. */
static bool is_joined(const struct step_sim *m, const struct step_call *a,
		      const struct step_call *b)
{
	for (unsigned i = 0; i < m->change_cnt; i++) {
		const char *name = m->changes[i].name;

		if (has_topic(a, &m->changes[i]) && has_topic(b, &m->changes[i]) &&
		    a->is_htod == b->is_htod)
			return true;
		if (a->stream != b->stream)
			continue;
		if (m->changes[i].kind == CHANGE_BATCH && step_is_fn(a, name) &&
		    step_is_fn(b, name))
			return true;
		if (m->changes[i].kind == CHANGE_FUSE && a->kernel && b->kernel &&
		    strstr(a->kernel, name) && strstr(b->kernel, name))
			return true;
	}
	return false;
}

/* Neither work for the GPU nor a wait for it. PyTorch and NCCL make about 20 such calls between two
 * collectives: about events, contexts and functions. */
static bool is_beside_work(const struct step_call *c)
{
	if (c->of_event)
		return !c->waits;
	return !c->submits && !c->waits && !c->may_wait &&
	       (c->kind == STEP_LIBRARY || c->kind == STEP_CALL || c->kind == STEP_MODULE);
}

/* The nearest call of the thread that concerns the GPU's work: from a segment on, step is 1 or -1.
 * NULL: none. */
static const struct step_call *work_call(const struct step_sim *m, const struct step_ref *ref,
					 uint32_t seg, int step)
{
	const struct step_graph *g = m->g;
	const struct step_thread *t = &g->threads[ref->thread];
	const struct step_call *c;

	for (int i = 0; i < CALLS_BETWEEN; i++, seg += step) {
		/* Before the first segment it wraps. */
		if (seg - t->first >= t->cnt)
			return NULL;
		c = &g->calls[g->segs[seg].call];
		if (!is_beside_work(c))
			return c;
	}
	return NULL;
}

/* It disappears with a batch: its call joins the one before it, or lies between such calls. */
static bool is_batched(const struct step_sim *m, const struct step_ref *ref)
{
	const struct step_call *prev, *c;

	if (!m->batches)
		return false;
	prev = work_call(m, ref, ref->seg - 1, -1);
	c = prev ? work_call(m, ref, ref->seg, 1) : NULL;
	return c && is_joined(m, prev, c);
}

static int64_t replayed_start(const struct step_sim *m, const struct step_ref *ref, bool is_node)
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
	gap -= late_ns(m, true, after->end_ns, seg->start_ns);
	gap -= overhead_ns(m, m->probes_before[ref->seg], gap);
	if ((!is_node || gap > GRAPH_GAP_NS) && !is_batched(m, ref))
		start += scaled(gap, gap_factor(m, seg, gap));
	if (other && prev && m->seg_end[ref->seg - 1] > start)
		start = m->seg_end[ref->seg - 1];
	return start;
}

/* When the work that a call waits for has ended. Other costs may change which work of a context
 * ends last. */
static int64_t target_end(const struct step_sim *m, const struct step_call *c, uint32_t target)
{
	bool of_all = c->waits && !c->of_stream && !c->of_event &&
		      (m->g->execs[target].call == STEP_NONE ||
		       &m->g->calls[m->g->execs[target].call] != c);

	return of_all && m->latest_end > m->exec_end[target] ? m->latest_end : m->exec_end[target];
}

static void replay_seg(struct step_sim *m, const struct step_ref *ref)
{
	const struct step_graph *g = m->g;
	const struct step_seg *seg = &g->segs[ref->seg];
	const struct step_call *c = &g->calls[seg->call];
	bool is_node = m->has_graphs && m->is_in_graph[ref->seg];
	uint64_t until = step_blocked_until(m->s, seg->call), ns = seg->end_ns - seg->start_ns;
	uint64_t overhead = overhead_ns(m, m->probes_in[ref->seg], ns);
	uint32_t target = g->target[seg->call];
	bool is_batch = is_batched(m, ref);
	double factor = is_batch ? 0 : host_factor(m, seg);
	int64_t start = replayed_start(m, ref, is_node), end = start;

	if (is_node) {
		if (m->group[ref->seg])
			end += m->cost->launch_ns + m->group[ref->seg] * m->cost->node_ns;
		replay_work(m, ref->seg, end, 0, true, false);
	} else if (m->pins && c->is_pageable && c->fn->is_async) {
		end += scaled(ns < PINNED_CALL_NS ? ns : PINNED_CALL_NS, factor);
		replay_work(m, ref->seg, end, factor, false, is_batch);
	} else if (until <= seg->start_ns) {
		ns -= late_ns(m, true, seg->start_ns, seg->end_ns);
		ns -= overhead < ns ? overhead : ns;
		end += scaled(ns, factor);
		replay_work(m, ref->seg, end, factor, false, is_batch);
		/* With other costs it may have to wait. */
		if (c->waits && target != STEP_NONE && does_wait(m, c) &&
		    target_end(m, c, target) > end)
			end = target_end(m, c, target);
	} else {
		replay_work(m, ref->seg, start + scaled(ns, factor), factor, false, is_batch);
		if (does_wait(m, c) && target == STEP_NONE) {
			/* a trace without GPU times */
			ns -= late_ns(m, false, seg->start_ns, seg->end_ns);
			end += scaled(ns, gpu_factor(m));
		} else if (does_wait(m, c)) {
			if (target_end(m, c, target) > end)
				end = target_end(m, c, target);
			end += seg->end_ns > until ? scaled(seg->end_ns - until, factor) : 0;
		}
	}
	m->seg_end[ref->seg] = end;
}

/* Half of the mean overhead of a recorded call, of all traces together. */
static uint64_t probe_ns(const struct trace_end *end)
{
	uint64_t ns = end && end->call_cnt ? end->cost_ns / end->call_cnt / 2 : 0;

	return ns < PROBE_MAX_NS ? ns : 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct communication_wait *x = a, *y = b;

	return ASCENDING(x->from_ns, y->from_ns) ?: ASCENDING(x->to_ns, y->to_ns);
}

/* Adds the times in which the process waited for this one; or, if it is the process itself, in
 * which others waited for it. */
static void add_lates(struct step_sim *m, uint32_t pid)
{
	struct step_lates *l = &m->lates[pid == m->g->calls[0].pid];
	struct communication_wait *waits;
	int cnt = communication_waits(m->s->r, m->g->calls[0].pid, pid, &waits);
	struct step_late *of;

	of = cnt > 0 ? realloc(l->of, (l->cnt + cnt) * sizeof(*of)) : NULL;
	if (of) {
		l->of = of;
		for (int i = 0; i < cnt; i++)
			of[l->cnt++] = (struct step_late){.wait = waits[i]};
	}
	free(waits);
}

/* Sorts them, joins those that overlap, and sums them. */
static void join_lates(struct step_lates *l)
{
	uint32_t cnt = 0;

	if (!l->cnt)
		return;
	qsort(l->of, l->cnt, sizeof(*l->of), by_begin);
	for (uint32_t i = 1; i < l->cnt; i++) {
		struct communication_wait *last = &l->of[cnt].wait, *x = &l->of[i].wait;

		if (x->from_ns > last->to_ns)
			l->of[++cnt].wait = *x;
		else if (x->to_ns > last->to_ns)
			last->to_ns = x->to_ns;
	}
	l->cnt = cnt + 1;
	l->of[0].before_ns = 0;
	for (uint32_t i = 1; i < l->cnt; i++)
		l->of[i].before_ns = l->of[i - 1].before_ns + l->of[i - 1].wait.to_ns -
				     l->of[i - 1].wait.from_ns;
}

static void find_lates(struct step_sim *m)
{
	uint32_t pid;

	for (unsigned i = 0; i < 2; i++)
		m->lates[i].cnt = 0;
	for (unsigned i = 0; i < m->change_cnt; i++)
		if (m->changes[i].kind == CHANGE_ON_TIME &&
		    (m->changes[i].pid || communication_process(m->s->r, m->changes[i].rank, &pid)))
			add_lates(m, m->changes[i].pid ?: pid);
	for (unsigned i = 0; i < 2; i++)
		join_lates(&m->lates[i]);
}

void step_replay(struct step_sim *m, const struct step_change *changes, unsigned cnt)
{
	const struct step_graph *g = m->g;

	m->changes = changes;
	m->change_cnt = cnt;
	m->has_graphs = m->pins = m->overlaps = m->overlaps_comm = m->batches = false;
	m->probe_ns = 0;
	for (unsigned i = 0; i < cnt; i++) {
		m->has_graphs |= changes[i].kind == CHANGE_GRAPH;
		m->pins |= changes[i].kind == CHANGE_PINNED;
		m->overlaps |= changes[i].kind == CHANGE_OVERLAP;
		m->overlaps_comm |= changes[i].kind == CHANGE_OVERLAP_COMM;
		m->batches |= changes[i].kind == CHANGE_BATCH || changes[i].kind == CHANGE_FUSE ||
			      is_topic(&changes[i], STEP_TOPIC_COPY) ||
			      is_topic(&changes[i], STEP_TOPIC_COLLECTIVE);
		if (changes[i].kind == CHANGE_UNTRACED)
			m->probe_ns = probe_ns(m->s->r->end);
	}
	if (m->has_graphs)
		group_all(m);
	if (m->overlaps || m->overlaps_comm)
		find_awaited(m);
	find_lates(m);
	m->latest_end = 0;
	for (uint32_t i = 0; i < g->exec_cnt; i++)
		m->exec_end[i] = (int64_t)(g->execs[i].end_ns - m->from_ns);
	for (uint32_t i = 0; i < m->order_cnt; i++)
		replay_seg(m, &m->order[i]);
	for (uint32_t i = 0; i < g->exec_cnt; i++)
		m->done_ns[i] = i && m->done_ns[i - 1] > m->exec_end[i] ? m->done_ns[i - 1]
									: m->exec_end[i];
}

/* The number of executions that ended until then. */
static uint32_t ended_until(const struct step_graph *g, uint64_t ns)
{
	return COUNT_LEADING(i, g->exec_cnt, g->execs[i].end_ns <= ns);
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
		at += scaled(ns - seg->end_ns, gap_factor(m, NULL, 0));
	/* Work that the GPU had completed by then is complete, too. */
	if (ended && m->done_ns[ended - 1] > at)
		at = m->done_ns[ended - 1];
	return at;
}
