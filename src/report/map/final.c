/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The map for display, made when stages and iterations are known: process, stage, iterations or
 * warm-up, and below them the nodes of map.c. Nodes with the same names are merged. A level with
 * only one node (the process, its thread) is omitted.
 */
#include "map_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/iter/iter.h"
#include "report/kernels/graphs.h"
#include "report/time/stage.h"

/* A function is the iteration, or encloses it, if one pass has this share of an iteration's
 * launches. */
#define PART_OF_ITERATION 0.5

/* Steps in which GPU times of graphs are divided; what is left stays with the launches. */
#define DIVIDED_MAX (1u << 22)

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
	uint64_t divided_cnt;
};

static enum its its_at(const struct work *w, uint64_t ns)
{
	uint64_t i = iter_number_at(w->m->r, ns);

	if (!i)
		return NO_ITERATION;
	return iter_at(w->m->r, i - 1).warmup ? IS_WARMUP : IS_STEADY;
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

/* 0: passes are merged. in_graph: below the top of a capture, which is a part of an iteration. */
static uint32_t number_of(struct work *w, const struct map_node *n, bool in_graph)
{
	const uint64_t *f;

	if (!is_numbered(n))
		return n->number;
	f = &w->families[3 * keys__find(&w->family_keys, family_key(n))];
	if (f[2] < 2)
		return 0;
	if (w->iter.count && !in_graph &&
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

static uint32_t final_like(struct map *m, uint32_t at, const struct map_node *n, uint32_t number)
{
	at = final_of(m, at, n->kind, n->name, n->file, number);
	if (at != MAP_NONE)
		m->finals[at].is_numbered = is_numbered(n) && number;
	return at;
}

/* The path of a captured call below the launch of its graph. */
static uint32_t final_captured(struct work *w, uint32_t at, uint32_t launch, uint32_t row)
{
	uint32_t path[MAP_GRAFT];
	unsigned cnt = map_graph_path(w->m, launch, row, path);

	for (unsigned i = 0; i < cnt; i++) {
		const struct map_node *n = &w->m->nodes[path[i]];

		at = final_like(w->m, at, n,
				map_graph_is_top(w->m, row, path[i]) ? 0 : number_of(w, n, true));
	}
	return cnt ? at : MAP_NONE;
}

/* The place in the map of an execution of a graph's node. */
static uint32_t final_replayed(struct work *w, uint32_t at, const struct map_node *n)
{
	const struct graph_executed *x = graphs_executed(w->m->r, n->number - 1);
	uint32_t found;

	if (!x || !x->node || at == MAP_NONE)
		return at;
	found = final_captured(w, at, n->parent, x->captured);
	if (found != MAP_NONE)
		return found;
	if (!x->capture)
		at = final_of(w->m, at, MAP_GRAPH, "captured before the trace", NULL, 0);
	return x->what == 'k' ? final_of(w->m, at, MAP_KERNEL, n->name, NULL, 0) : at;
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
	case MAP_REPLAYED:
		at = final_replayed(w, at, n);
		break;
	default:
		at = final_like(m, at, n, number_of(w, n, false));
	}
	w->finals[i] = at;
	return at;
}

/* Divides GPU time of whole graphs, which their launch `at` has, among their captured calls, by the
 * times that the nodes of an equal graph took. */
static void divide(struct work *w, const struct map_node *n, uint32_t at, uint64_t ns)
{
	struct map *m = w->m;
	const struct graph_executed *x = graphs_executed(m->r, n->number - 1);
	uint64_t total = 0, left = ns;
	uint32_t like = x ? graphs_shares_of(m->r, x, &total) : GRAPH_NONE;
	uint32_t own = like == GRAPH_NONE ? like : graphs_first_captured(m->r, x->capture - 1);
	const struct graph_captured *c, *of;

	while (total && (c = graphs_captured(m->r, own)) && (of = graphs_captured(m->r, like))) {
		uint64_t part = (double)ns * of->ns / total;
		uint32_t to = MAP_NONE;

		part = part < left ? part : left;
		if (part && w->divided_cnt++ < DIVIDED_MAX)
			to = final_captured(w, at, n->parent, own);
		if (to != MAP_NONE) {
			m->finals[to].sums.gpu_ns += part;
			left -= part;
		}
		own = c->next;
		like = of->next;
	}
	m->finals[at].sums.gpu_ns -= ns - left;
	m->divided_ns += ns - left;
}

static void add_parts(struct work *w, uint32_t node)
{
	struct map *m = w->m;
	struct map_node *n = &m->nodes[node];
	const struct graph_executed *x =
		n->kind == MAP_REPLAYED ? graphs_executed(m->r, n->number - 1) : NULL;
	uint64_t graphs_ns[STAGE_CNT][IS_STEADY + 1] = {0};
	const struct class *c;
	uint32_t at;

	for (const struct map_part *p = n->parts; p; p = p->next) {
		c = &w->of[p->slice];
		at = make_final(w, node, *c, 0);
		if (at == MAP_NONE) {
			m->rejected++;
			continue;
		}
		map_sums_add(&m->finals[at].sums, &p->sums);
		if (x && x->node && x->what == 'k')
			roofline_add_replayed(m->r, n->number - 1, p->sums.gpu_cnt, p->sums.gpu_ns,
					      &m->finals[at].sums.roof);
		graphs_ns[c->stage][c->its] += p->sums.gpu_ns;
	}
	for (unsigned i = 0; n->kind == MAP_REPLAYED && i < STAGE_CNT * (IS_STEADY + 1); i++) {
		struct class of = {i / (IS_STEADY + 1), i % (IS_STEADY + 1)};
		uint64_t ns = graphs_ns[of.stage][of.its];

		at = ns ? make_final(w, node, of, 0) : MAP_NONE;
		if (at != MAP_NONE)
			divide(w, n, at, ns);
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

/* --- all --- */

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
	if (!map_sort_children(m))
		m->rejected++;
	map_sum_functions(m);
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

bool map_of_steps(const struct report *r, uint64_t *steps, struct roof_time *time)
{
	const struct map *m = r->an[AN_MAP];
	struct iter_result it;

	*steps = 0;
	*time = (struct roof_time){0};
	iter_result(r, &it);
	for (uint32_t i = 0; m && m->finals && i < m->final_keys.cnt; i++) {
		const struct map_final *f = &m->finals[i];

		/* A stage has its own node of the same iterations. */
		if (f->kind != MAP_ITERATIONS || f->per != it.count - it.warmup ||
		    strcmp(f->name, "iterations"))
			continue;
		*steps = f->per;
		time->known_ns += f->sums.roof.known_ns;
		time->roof_ps += f->sums.roof.roof_ps;
		time->peak_ps += f->sums.roof.peak_ps;
	}
	return *steps != 0;
}
