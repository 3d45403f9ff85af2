/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes over time in a fixed number of steps; full steps double in length. */
#include "memory_priv.h"

#include <string.h>

void mem_time__init(struct mem_time *t)
{
	t->step_ns = TIME_STEP_NS;
}

static void halve(struct mem_time *t)
{
	for (unsigned i = 0; i < TIME_STEPS; i++) {
		bool first = i < TIME_STEPS / 2;

		for (unsigned k = 0; k < BLOCK_KIND_CNT; k++) {
			uint64_t *x = t->max[k];

			x[i] = !first ? 0 : x[2 * i] > x[2 * i + 1] ? x[2 * i] : x[2 * i + 1];
		}
		t->allocs[i] = first ? t->allocs[2 * i] + t->allocs[2 * i + 1] : 0;
	}
	t->step_ns *= 2;
	t->last /= 2;
}

void mem_time__advance(struct mem_time *t, const struct memory *m, uint64_t ns)
{
	uint64_t at = ns > m->r->begin_ns ? ns - m->r->begin_ns : 0;

	while (at / t->step_ns >= TIME_STEPS)
		halve(t);
	/* Records of threads may be swapped by a few microseconds; late ones count in this step. */
	while (t->last < at / t->step_ns) {
		t->last++;
		for (unsigned k = 0; k < BLOCK_KIND_CNT; k++)
			t->max[k][t->last] = m->kinds[k].live;
	}
}

void mem_time__alloc(struct mem_time *t, int sign)
{
	if (sign > 0 || t->allocs[t->last])
		t->allocs[t->last] += sign;
}

void mem_time__max(struct mem_time *t, enum block_kind kind, uint64_t live)
{
	if (live > t->max[kind][t->last])
		t->max[kind][t->last] = live;
}
