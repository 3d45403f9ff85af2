/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The order of nodes with one parent: heaviest first, passes of a function together. */
#include "map_priv.h"
#include "util/order.h"

#include <stdlib.h>

struct order {
	uint64_t weight;
	uint32_t number, node;
};

uint64_t map_weight(const struct map *m, const struct map_sums *s)
{
	switch (m->r->opts.map) {
	case MAP_BY_HOST:
		return s->host_ns;
	case MAP_BY_WALL:
		return map_wall(s);
	case MAP_BY_GPU:
		return s->gpu_ns;
	case MAP_BY_LAUNCHES:
		return s->launches;
	case MAP_BY_CALLS:
		return s->calls;
	default: /* host or GPU, whichever took longer */
		return map_wall(s) > s->gpu_ns ? map_wall(s) : s->gpu_ns;
	}
}

/* The list is reversed later: then the heaviest comes first, and passes in order. */
static int lightest_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	return ASCENDING(x->weight, y->weight) ?: DESCENDING(x->number, y->number)
	       ?: DESCENDING(x->node, y->node);
}

/* Gives all passes of a function the weight of the heaviest, so that they stay together. */
static bool level_passes(struct map *m, struct order *list)
{
	struct keys keys = {0};
	uint64_t *most = NULL;
	unsigned cap = 0;
	bool ok = true;

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; ok && i < m->final_keys.cnt; i++) {
			const struct map_final *f = &m->finals[i];
			uint64_t key = pair_key(pair_key((uintptr_t)f->name, (uintptr_t)f->file),
						f->parent);
			uint64_t *grown;
			uint32_t n;

			if (!f->is_numbered)
				continue;
			n = keys_get(&keys, key, KEYS_NONE, MEMLIMIT_MAP);
			grown = n == KEYS_NONE
					? NULL
					: grow(most, &cap, n + 1, sizeof(*most), MEMLIMIT_MAP);
			ok = grown;
			if (!ok)
				break;
			most = grown;
			list[i].number = f->number;
			if (most[n] < list[i].weight)
				most[n] = list[i].weight;
			list[i].weight = most[n];
		}
	}
	keys__free(&keys);
	memlimit_free(most);
	return ok;
}

bool map_sort_children(struct map *m)
{
	uint32_t cnt = m->final_keys.cnt;
	struct order *list = calloc(cnt + 1, sizeof(*list));
	bool ok;

	if (!list)
		return false;
	for (uint32_t i = 1; i < cnt; i++)
		list[i] = (struct order){.weight = map_weight(m, &m->finals[i].sums), .node = i};
	ok = level_passes(m, list);
	qsort(list + 1, cnt ? cnt - 1 : 0, sizeof(*list), lightest_first);
	for (uint32_t i = 1; i < cnt; i++) {
		struct map_final *parent = &m->finals[m->finals[list[i].node].parent];

		m->finals[list[i].node].next = parent->first;
		parent->first = list[i].node;
		parent->cnt++;
	}
	free(list);
	return ok;
}
