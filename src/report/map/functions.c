/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The Python functions of the map, wherever they are in it. */
#include "map_priv.h"
#include "util/order.h"

#include <stdlib.h>

static struct map_function *function_of(struct map *m, const struct map_final *f)
{
	uint32_t i =
		keys_row_max(&m->function_keys, pair_key((uintptr_t)f->name, (uintptr_t)f->file),
			     KEYS_NONE, MEMLIMIT_MAP, m->functions, m->function_cap);

	if (i == KEYS_NONE)
		return NULL;
	m->functions[i].name = f->name;
	m->functions[i].file = f->file;
	return &m->functions[i];
}

/* Recursive functions count their time once. */
static bool is_in_itself(const struct map *m, const struct map_final *f)
{
	for (uint32_t up = f->parent; up; up = m->finals[up].parent) {
		const struct map_final *x = &m->finals[up];

		if (x->kind == MAP_PYTHON && x->name == f->name && x->file == f->file)
			return true;
	}
	return false;
}

static int by_total(const void *a, const void *b)
{
	const struct map_function *x = a, *y = b;
	uint64_t wx = map_wall(&x->total), wy = map_wall(&y->total);

	return DESCENDING(wx, wy) ?: DESCENDING(x->total.calls, y->total.calls);
}

/* The innermost function around f; for the outermost below a launch of a graph, the function that
 * launched it. NULL: none. */
static struct map_function *caller_of(struct map *m, const struct map_final *f)
{
	uint32_t up = f->parent;

	while (up && m->finals[up].kind != MAP_PYTHON)
		up = m->finals[up].parent;
	return up ? function_of(m, &m->finals[up]) : NULL;
}

void map_sum_functions(struct map *m)
{
	for (uint32_t i = 1; i < m->final_keys.cnt; i++) {
		const struct map_final *f = &m->finals[i];
		struct map_function *fn, *caller;

		if (f->kind != MAP_PYTHON)
			continue;
		fn = function_of(m, f);
		if (!fn)
			continue;
		map_sums_add(&fn->self, &f->sums);
		if (!is_in_itself(m, f))
			map_sums_add(&fn->total, &f->sums);
		caller = caller_of(m, f);
		if (caller)
			map_sums_sub(&caller->self, &f->sums);
	}
	if (m->functions)
		qsort(m->functions, m->function_keys.cnt, sizeof(*m->functions), by_total);
}
