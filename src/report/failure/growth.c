/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether memory grew from step to step before it was exhausted: blocks that each of the latest
 * steps allocated and that were still held. */
#include "failure_priv.h"

#include "report/iter/iter.h"
#include "util/memlimit.h"

/* With more blocks there is no statement. */
#define GROWTH_BLOCKS_MAX 16384
#define GROWTH_STEPS	  32
/* Steps that must have left blocks: at least so many, and this part of all. An allocator may
 * request memory in only some of the steps. */
#define GROWTH_STEPS_MIN  4
#define GROWTH_STEPS_PART 4

void growth_add(struct fail_case *c, const struct memory_block *b)
{
	struct growth *g = &c->growth;
	void *p;

	if (g->cnt == GROWTH_BLOCKS_MAX || g->incomplete) {
		g->incomplete = true;
		return;
	}
	p = grow(g->blocks, &g->cap, g->cnt + 1, sizeof(*g->blocks), MEMLIMIT_INFLIGHT);
	if (!p) {
		g->incomplete = true;
		return;
	}
	g->blocks = p;
	g->blocks[g->cnt++] = (struct growth_block){b->start_ns, b->size};
}

static uint64_t left_by(const struct growth *g, const struct iter_span *s)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < g->cnt; i++)
		if (g->blocks[i].start_ns >= s->begin_ns && g->blocks[i].start_ns < s->end_ns)
			bytes += g->blocks[i].size;
	return bytes;
}

void growth_finish(struct failure *f, struct fail_case *c)
{
	struct growth *g = &c->growth;
	struct iter_result it;
	uint64_t bytes = 0;
	unsigned steps = 0, left = 0;

	iter_result(f->r, &it);
	if (g->incomplete || !it.count || it.pid != c->pid)
		return;
	for (uint64_t i = it.count; i-- && steps < GROWTH_STEPS;) {
		struct iter_span s = iter_at(f->r, i);
		uint64_t of_step;

		if (s.warmup || s.end_ns > c->at_ns)
			continue;
		of_step = left_by(g, &s);
		bytes += of_step;
		left += of_step > 0;
		steps++;
	}
	if (left < GROWTH_STEPS_MIN || left * GROWTH_STEPS_PART < steps)
		return;
	g->steps = steps;
	g->left_steps = left;
	g->per_step = bytes / steps;
}
