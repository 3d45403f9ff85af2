/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The map for display, made when stages and iterations are known: process, stage, iterations or
 * warm-up, and below them the nodes of map.c. Nodes with the same names are merged. A level with
 * only one node (the process, its thread) is omitted.
 */
#include "map_priv.h"

#include <stdlib.h>

#include "report/iter/iter.h"
#include "report/time/stage.h"

/* A function is the iteration, or encloses it, if one pass has this share of an iteration's
 * launches. */
#define PART_OF_ITERATION 0.5

enum its { NO_ITERATION, IS_WARMUP, IS_STEADY };

/* Stage and iterations of a slice. */
struct class
{
	uint8_t stage, its;
};

struct work {
	struct map *m;
	struct class of[MAP_SLICES];
	struct iter_result iter;
	struct keys made; /* (node, class) to final node */
	uint32_t *finals; /* values of made */
	unsigned final_cap;
	uint64_t *launches, *passes; /* per node */
	uint64_t *families;	     /* three each: launches, passes, nodes */
	struct keys family_keys;
	unsigned family_cap;
	uint32_t *threads; /* threads per process */
};

static enum its its_at(const struct work *w, uint64_t ns)
{
	uint64_t lo = 0, hi = w->iter.count, middle;
	struct iter_span span;

	while (lo < hi) {
		middle = (lo + hi) / 2;
		if (iter_at(w->m->r, middle).begin_ns <= ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (!lo)
		return NO_ITERATION;
	span = iter_at(w->m->r, lo - 1);
	if (ns >= span.end_ns)
		return NO_ITERATION;
	return span.warmup ? IS_WARMUP : IS_STEADY;
}

static void classify(struct work *w)
{
	const struct map *m = w->m;

	for (unsigned i = 0; i < m->slice_cnt; i++) {
		const struct map_slice *s = &m->slices[i];
		uint64_t ns = s->first_ns + (s->last_ns - s->first_ns) / 2;

		w->of[i] = (struct class){stage_of_moment(m->r, ns), its_at(w, ns)};
	}
}

/* --- passes --- */

static uint64_t family_key(const struct map_node *n)
{
	return pair_key(pair_key((uintptr_t)n->name, (uintptr_t)n->file), n->parent);
}

static bool is_numbered(const struct map_node *n)
{
	return n->kind == MAP_PYTHON && n->number;
}

/* Sums launches in and below each node, and passes of a function within one caller. */
static bool sum_families(struct work *w)
{
	struct map *m = w->m;
	uint32_t cnt = m->node_keys.cnt;

	w->launches = calloc(cnt + 1, sizeof(*w->launches));
	w->passes = calloc(cnt + 1, sizeof(*w->passes));
	if (!w->launches || !w->passes)
		return false;
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t launches = 0;

		for (const struct map_part *p = m->nodes[i].parts; p; p = p->next) {
			launches += p->sums.launches;
			w->passes[i] += p->sums.passes;
		}
		for (uint32_t n = i, d = 0; launches && d < 8 * MAP_DEPTH; d++) {
			w->launches[n] += launches;
			if (!n)
				break;
			n = m->nodes[n].parent;
		}
	}
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t *list;
		uint32_t f;

		if (!is_numbered(&m->nodes[i]))
			continue;
		f = keys_get(&w->family_keys, family_key(&m->nodes[i]), KEYS_NONE, MEMLIMIT_MAP);
		list = f == KEYS_NONE ? NULL
				      : grow(w->families, &w->family_cap, 3 * (f + 1),
					     sizeof(*list), MEMLIMIT_MAP);
		if (!list)
			return false;
		w->families = list;
		list[3 * f] += w->launches[i];
		list[3 * f + 1] += w->passes[i];
		list[3 * f + 2]++;
	}
	return true;
}

/* 0: passes are merged. */
static uint32_t number_of(struct work *w, const struct map_node *n)
{
	const uint64_t *f;

	if (!is_numbered(n))
		return n->number;
	f = &w->families[3 * keys__find(&w->family_keys, family_key(n))];
	if (f[2] < 2)
		return 0;
	if (w->iter.count &&
	    ratio_of(f[0], f[1]) > PART_OF_ITERATION * w->iter.dist[ITS_KERNELS].mean)
		return 0;
	return n->number;
}

/* --- nodes --- */

static uint32_t final_of(struct map *m, uint32_t parent, enum map_kind kind, const char *name,
			 const char *file, uint32_t number)
{
	uint64_t key = pair_key(pair_key(pair_key((uintptr_t)name, (uintptr_t)file), parent),
				(uint64_t)kind << 32 | number);
	uint32_t cnt = m->final_keys.cnt, i;

	if (parent == MAP_NONE)
		return MAP_NONE;
	i = keys_row_max(&m->final_keys, key, KEYS_NONE, MEMLIMIT_MAP, m->finals, m->final_cap);
	if (i == KEYS_NONE)
		return MAP_NONE;
	if (i == cnt)
		m->finals[i] = (struct map_final){.name = name,
						  .file = file,
						  .parent = parent,
						  .first = MAP_NONE,
						  .next = MAP_NONE,
						  .number = number,
						  .kind = kind};
	return i;
}

/* The node of stage and iterations below a process. */
static uint32_t class_of(struct work *w, uint32_t at, uint32_t pid, struct class c)
{
	struct map *m = w->m;

	if (m->r->args_redacted)
		return at;
	at = final_of(m, at, MAP_STAGE, stage_name(c.stage), NULL, 0);
	/* the first iteration may begin with the first call */
	if (!c.its || pid != w->iter.pid || c.stage == STAGE_INIT || c.stage == STAGE_LOAD)
		return at;
	at = final_of(m, at, MAP_ITERATIONS, c.its == IS_STEADY ? "iterations" : "warm-up", NULL,
		      0);
	if (at != MAP_NONE)
		m->finals[at].per =
			c.its == IS_STEADY ? w->iter.count - w->iter.warmup : w->iter.warmup;
	return at;
}

static uint32_t make_final(struct work *w, uint32_t node, struct class c, unsigned depth)
{
	struct map *m = w->m;
	const struct map_node *n = &m->nodes[node];
	uint32_t cnt = w->made.cnt, i, at, *list;

	if (!node || depth > 8 * MAP_DEPTH)
		return 0;
	i = keys_get(&w->made, (uint64_t)node << 16 | c.stage << 8 | c.its, KEYS_NONE,
		     MEMLIMIT_MAP);
	if (i == KEYS_NONE)
		return MAP_NONE;
	if (i < cnt)
		return w->finals[i];
	list = grow(w->finals, &w->final_cap, i + 1, sizeof(*list), MEMLIMIT_MAP);
	if (!list) {
		keys__undo(&w->made, i);
		return MAP_NONE;
	}
	w->finals = list;
	list[i] = MAP_NONE;
	at = make_final(w, n->parent, c, depth + 1);
	n = &m->nodes[node];
	switch (n->kind) {
	case MAP_PROCESS:
		if (w->threads[0] > 1)
			at = final_of(m, at, MAP_PROCESS, NULL, NULL, n->number);
		at = class_of(w, at, n->number, c);
		break;
	case MAP_THREAD:
		if (w->threads[n->parent] > 1)
			at = final_of(m, at, MAP_THREAD, n->name, NULL, 0);
		break;
	default:
		at = final_of(m, at, n->kind, n->name, n->file, number_of(w, n));
		if (at != MAP_NONE)
			m->finals[at].is_numbered = is_numbered(n) && m->finals[at].number;
	}
	w->finals[i] = at;
	return at;
}

static void add_parts(struct work *w, uint32_t node)
{
	struct map *m = w->m;

	for (const struct map_part *p = m->nodes[node].parts; p; p = p->next) {
		uint32_t at = make_final(w, node, w->of[p->slice], 0);

		if (at == MAP_NONE) {
			m->rejected++;
			continue;
		}
		map_sums_add(&m->finals[at].sums, &p->sums);
	}
}

/* Parents were created before their children. */
static void sum_up(struct map *m)
{
	for (uint32_t i = m->final_keys.cnt; i-- > 1;) {
		struct map_final *f = &m->finals[i];
		struct map_sums sums = f->sums;

		f->self = sums;
		for (uint32_t c = f->first; c != MAP_NONE; c = m->finals[c].next)
			map_sums_sub(&f->self, &m->finals[c].sums);
		sums.passes = 0;
		map_sums_add(&m->finals[f->parent].sums, &sums);
		f->next = m->finals[f->parent].first;
		m->finals[f->parent].first = i;
	}
	for (uint32_t i = 1; i < m->final_keys.cnt; i++) {
		struct map_final *f = &m->finals[i], *up = &m->finals[f->parent];

		f->per = f->kind == MAP_ITERATIONS ? f->per : up->per;
		f->next = f->first = MAP_NONE;
	}
	m->finals[0].first = MAP_NONE;
}

/* --- order --- */

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

	if (x->weight != y->weight)
		return x->weight < y->weight ? -1 : 1;
	if (x->number != y->number)
		return x->number > y->number ? -1 : 1;
	return x->node > y->node ? -1 : x->node < y->node;
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

static bool sort_children(struct map *m)
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

/* --- functions --- */

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
	for (const struct map_final *up = &m->finals[f->parent]; up->kind == MAP_PYTHON;
	     up = &m->finals[up->parent])
		if (up->name == f->name && up->file == f->file)
			return true;
	return false;
}

static int by_total(const void *a, const void *b)
{
	const struct map_function *x = a, *y = b;
	uint64_t wx = map_wall(&x->total), wy = map_wall(&y->total);

	if (wx != wy)
		return wx < wy ? 1 : -1;
	return x->total.calls < y->total.calls ? 1 : x->total.calls > y->total.calls ? -1 : 0;
}

static void sum_functions(struct map *m)
{
	for (uint32_t i = 1; i < m->final_keys.cnt; i++) {
		const struct map_final *f = &m->finals[i];
		struct map_function *fn;

		if (f->kind != MAP_PYTHON)
			continue;
		fn = function_of(m, f);
		if (!fn)
			continue;
		map_sums_add(&fn->self, &f->sums);
		for (uint32_t c = f->first; c != MAP_NONE; c = m->finals[c].next)
			if (m->finals[c].kind == MAP_PYTHON)
				map_sums_sub(&fn->self, &m->finals[c].sums);
		if (!is_in_itself(m, f))
			map_sums_add(&fn->total, &f->sums);
	}
	if (m->functions)
		qsort(m->functions, m->function_keys.cnt, sizeof(*m->functions), by_total);
}

/* Counts threads with work below them: all of autograd's may be below another thread. */
static void count_threads(struct work *w)
{
	const struct map *m = w->m;

	for (uint32_t i = 1; i < m->node_keys.cnt; i++) {
		uint32_t n = m->nodes[i].parts ? i : 0;

		for (unsigned d = 0; d < 8 * MAP_DEPTH && n && m->nodes[n].kind != MAP_THREAD; d++)
			n = m->nodes[n].parent;
		if (m->nodes[n].kind == MAP_THREAD && !w->threads[n]++ &&
		    !w->threads[m->nodes[n].parent]++)
			w->threads[0]++;
	}
}

void map_finish_tree(struct map *m)
{
	struct work *w = calloc(1, sizeof(*w));
	uint32_t cnt = m->node_keys.cnt;

	if (!w || !cnt)
		goto out;
	w->m = m;
	w->threads = calloc(cnt, sizeof(*w->threads));
	iter_result(m->r, &w->iter);
	classify(w);
	if (!w->threads || !sum_families(w) ||
	    final_of(m, 0, MAP_ROOT, "all", NULL, 0) == MAP_NONE) {
		m->rejected++;
		goto out;
	}
	count_threads(w);
	for (uint32_t i = 0; i < cnt; i++)
		add_parts(w, i);
	sum_up(m);
	if (!sort_children(m))
		m->rejected++;
	sum_functions(m);
	map_number(m);
out:
	if (w) {
		keys__free(&w->made);
		keys__free(&w->family_keys);
		memlimit_free(w->finals);
		memlimit_free(w->families);
		free(w->launches);
		free(w->passes);
		free(w->threads);
	}
	free(w);
}
