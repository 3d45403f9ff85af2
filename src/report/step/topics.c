/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What findings are about, where that depends on other calls: waits after little work, launches of
 * small collectives, and host time in which the GPU is idle because a thread has waited for all its
 * work.
 */
#include "replay_priv.h"

#include "util/order.h"

#define SMALL_SUBMITS 4
#define SMALL_BYTES   (1 << 20)
#define LOOK_AHEAD    64 /* executions */

/* Of a thread, since its last wait. */
struct topic_thread {
	uint64_t submits, bytes;
	uint64_t collective_end_ns; /* of the latest small collective */
};

/* Calls are in the order of their starts, so those around others come first. */
void step_topics_make(struct step_graph *g)
{
	struct topic_thread threads[STEP_THREADS] = {0};

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		struct step_call *c = &g->calls[i];
		unsigned thread = step_thread_of(g, i);
		struct topic_thread *t = &threads[thread];

		/* There are more threads than the graph has. */
		if (g->threads[thread].tid != c->tid)
			continue;
		if (c->topics >> STEP_TOPIC_COLLECTIVE & 1)
			t->collective_end_ns = c->end_ns;
		else if (c->launches && c->end_ns <= t->collective_end_ns)
			c->topics |= 1 << STEP_TOPIC_COLLECTIVE;
		if (!c->is_top)
			continue;
		if (c->submits) {
			t->submits += c->fn->class == CLASS_GRAPH ? SMALL_SUBMITS + 1 : 1;
			t->bytes += c->bytes;
		}
		if (!c->waits)
			continue;
		if (t->submits && t->submits <= SMALL_SUBMITS && t->bytes < SMALL_BYTES)
			c->topics |= 1 << STEP_TOPIC_WAIT;
		t->submits = t->bytes = 0;
	}
}

/* Whether nothing is executed from the end of a wait to the start of the next work. */
static bool is_idle(const struct step_graph *g, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t first = COUNT_LEADING(i, g->exec_cnt, g->execs[i].end_ns <= from_ns);

	for (uint32_t i = first; i < g->exec_cnt && i - first < LOOK_AHEAD; i++)
		if (g->execs[i].start_ns < to_ns)
			return false;
	return true;
}

/* The host's time from a wait to the next work, both in the order of all threads. */
static uint32_t mark_idle(struct step_sim *m, uint32_t wait, uint32_t work)
{
	for (uint32_t i = wait + 1; i <= work; i++) {
		const struct step_ref *ref = &m->order[i];

		if (ref->thread && !m->g->threads[ref->thread].alternates)
			continue;
		m->idle[ref->seg] = i < work ? IDLE_BEFORE | IDLE_IN : IDLE_BEFORE;
	}
	return work - wait;
}

/* Keeps the time from a wait to the next work, if it is in a step. */
static void add_example(const struct step_sim *m, uint32_t wait, uint32_t work,
			struct step_examples *to)
{
	const struct step_graph *g = m->g;
	const struct step_seg *before = &g->segs[m->order[wait].seg];
	const struct step_seg *after = &g->segs[m->order[work].seg];
	uint64_t from_ns = m->windows[0].begin_ns, to_ns = m->windows[m->window_cnt - 1].end_ns;

	if (before->end_ns < from_ns || after->start_ns > to_ns || after->start_ns < before->end_ns)
		return;
	step_example_add(to, &(struct step_example){
				     .what = "from its return to the next work",
				     .fn = g->calls[before->call].fn,
				     .call_id = g->calls[before->call].id,
				     .next_id = g->calls[after->call].id,
				     .begin_ns = before->end_ns,
				     .ns = after->start_ns - before->end_ns,
				     .pid = g->calls[before->call].pid,
			     });
}

uint64_t step_idle_make(struct step_sim *m, struct step_examples *examples)
{
	const struct step_graph *g = m->g;
	uint32_t wait = STEP_NONE;
	uint64_t cnt = 0;

	for (uint32_t i = 0; i < m->order_cnt; i++) {
		const struct step_ref *ref = &m->order[i];
		const struct step_call *c = &g->calls[g->segs[ref->seg].call];

		if (ref->thread && !g->threads[ref->thread].alternates)
			continue;
		if (c->submits && wait != STEP_NONE &&
		    is_idle(g, g->segs[m->order[wait].seg].end_ns, ref->start_ns)) {
			cnt += mark_idle(m, wait, i);
			add_example(m, wait, i, examples);
		}
		wait = c->waits ? i : c->submits ? STEP_NONE : wait;
	}
	return g->exec_cnt ? cnt : 0;
}
