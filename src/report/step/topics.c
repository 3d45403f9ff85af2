/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What findings are about, where that depends on other calls: waits after little work, launches of
 * small collectives, and host time in which the GPU is idle because a thread has waited for all its
 * work.
 */
#include "step_priv.h"

#define SMALL_SUBMITS 4
#define SMALL_BYTES   (1 << 20)
#define LOOK_AHEAD    64 /* executions */

/* Of a thread, since its last wait. */
struct topic_thread {
	uint64_t submits, bytes;
	uint64_t collective_end_ns; /* of the latest small collective */
};

/* Calls are in the order of their starts, so those around others come first. */
static void find_topics(struct step_graph *g)
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
			t->submits++;
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
	uint32_t lo = 0, hi = g->exec_cnt;

	while (lo < hi) {
		uint32_t middle = lo + (hi - lo) / 2;

		if (g->execs[middle].end_ns <= from_ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	for (hi = lo; hi < g->exec_cnt && hi - lo < LOOK_AHEAD; hi++)
		if (g->execs[hi].start_ns < to_ns)
			return false;
	return true;
}

static void find_idle(struct step_graph *g, const struct step_thread *t)
{
	uint32_t wait = STEP_NONE;

	for (uint32_t i = t->first; i < t->first + t->cnt; i++) {
		const struct step_call *c = &g->calls[g->segs[i].call];

		if (c->submits && wait != STEP_NONE) {
			uint64_t from_ns = g->segs[wait].end_ns, to_ns = g->segs[i].start_ns;

			for (uint32_t k = wait + 1; k <= i && is_idle(g, from_ns, to_ns); k++) {
				g->segs[k].is_idle = k < i;
				g->segs[k].is_idle_before = true;
			}
		}
		wait = c->waits ? i : c->submits ? STEP_NONE : wait;
	}
}

void step_topics_make(struct steps *s)
{
	struct step_graph *g = &s->graph;

	find_topics(g);
	for (unsigned i = 0; g->exec_cnt && i < g->thread_cnt; i++)
		if (!i || g->threads[i].alternates)
			find_idle(g, &g->threads[i]);
}
