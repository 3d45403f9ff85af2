/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Holes between the live ranges of a process that has many; and ranges that must have been freed,
 * because others overlap them. */
#include "memory_priv.h"
#include "util/order.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b)
{
	const struct mem_block *x = *(struct mem_block *const *)a,
			       *y = *(struct mem_block *const *)b;

	return ASCENDING(x->key, y->key);
}

static size_t collect(struct mem_proc *p, struct mem_block **list)
{
	size_t n = 0;

	hash_each (b, &p->blocks[SPACE_ADDR])
		if (on_gpu(b->kind))
			list[n++] = b;
	hash_each (b, &p->blocks[SPACE_MAPPED])
		list[n++] = b;
	return n;
}

/* Drops the older of two overlapping blocks. Returns the number of blocks left. */
static size_t drop_overlapped(struct memory *m, struct mem_proc *p, struct mem_block **list,
			      size_t cnt, uint64_t ns)
{
	size_t n = 0;

	for (size_t i = 0; i < cnt; i++) {
		while (n && list[n - 1]->key + list[n - 1]->size > list[i]->key &&
		       list[n - 1]->born_ns <= list[i]->born_ns)
			memory__lost(m, p, list[--n], ns);
		if (n && list[n - 1]->key + list[n - 1]->size > list[i]->key)
			memory__lost(m, p, list[i], ns);
		else
			list[n++] = list[i];
	}
	return n;
}

/* The driver uses several address regions that are terabytes apart; the space between two regions
 * is not a hole. */
#define REGION_GAP (1ull << 30)

static void measure(struct fragmentation *f, struct mem_block *const *list, size_t cnt)
{
	f->ranges = cnt;
	f->regions = 1;
	for (size_t i = 0; i < cnt; i++) {
		uint64_t hole = i ? list[i]->key - (list[i - 1]->key + list[i - 1]->size) : 0;

		f->span += list[i]->size;
		if (!hole)
			continue;
		if (hole >= REGION_GAP) {
			f->regions++;
			continue;
		}
		f->span += hole;
		f->holes++;
		f->hole_bytes += hole;
		if (hole > f->largest_hole)
			f->largest_hole = hole;
	}
}

void memory__snapshot(struct memory *m, struct mem_proc *p, uint64_t ns)
{
	struct fragmentation f = {.pid = p->pid, .ts_ns = ns};
	struct mem_block **list = malloc((p->gpu_range_cnt + 1) * sizeof(*list));
	size_t cnt;

	if (!list)
		return;
	cnt = collect(p, list);
	/* Dropping blocks must not start another snapshot. */
	p->snap_cnt = cnt;
	qsort(list, cnt, sizeof(*list), by_address);
	cnt = drop_overlapped(m, p, list, cnt, ns);
	p->snap_cnt = cnt;
	if (cnt > m->frag.ranges ||
	    (cnt && cnt == m->frag.ranges && ns == m->frag.ts_ns && p->pid < m->frag.pid)) {
		measure(&f, list, cnt);
		m->frag = f;
	}
	free(list);
}
