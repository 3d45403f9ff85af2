/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Nodes of the map, and their sums per slice of the trace, as stages and iterations of a slice are
 * known only at the end. A slice ends where an iteration may: with a wait. With too many slices or
 * sums, adjacent ones are merged.
 */
#include "map_priv.h"

#define SLICES_MIN 64 /* minimum that is kept even with too many sums */

void map_sums_add(struct map_sums *to, const struct map_sums *x)
{
	to->calls += x->calls;
	to->launches += x->launches;
	to->bytes += x->bytes;
	to->flops += x->flops;
	to->unfinished += x->unfinished;
	to->host_ns += x->host_ns;
	to->gap_ns += x->gap_ns;
	to->gpu_cnt += x->gpu_cnt;
	to->gpu_ns += x->gpu_ns;
	to->busy_ns += x->busy_ns;
	to->idle_ns += x->idle_ns;
	to->roof.known_ns += x->roof.known_ns;
	to->roof.roof_ps += x->roof.roof_ps;
	to->roof.peak_ps += x->roof.peak_ps;
	to->passes += x->passes;
}

/* All except passes, which parents do not include. */
void map_sums_sub(struct map_sums *from, const struct map_sums *x)
{
	from->calls -= x->calls;
	from->launches -= x->launches;
	from->bytes -= x->bytes;
	from->flops -= x->flops;
	from->unfinished -= x->unfinished;
	from->host_ns -= x->host_ns;
	from->gap_ns -= x->gap_ns;
	from->gpu_cnt -= x->gpu_cnt;
	from->gpu_ns -= x->gpu_ns;
	from->busy_ns -= x->busy_ns;
	from->idle_ns -= x->idle_ns;
	from->roof.known_ns -= x->roof.known_ns;
	from->roof.roof_ps -= x->roof.roof_ps;
	from->roof.peak_ps -= x->roof.peak_ps;
}

uint32_t map_node_of(struct map *m, uint32_t parent, enum map_kind kind, const char *name,
		     const char *file, uint32_t number)
{
	uint64_t key = pair_key(pair_key(pair_key((uintptr_t)name, (uintptr_t)file), parent),
				(uint64_t)kind << 32 | number);
	uint32_t i;

	if (parent == MAP_NONE)
		return MAP_NONE;
	i = keys_row(&m->node_keys, key, MEMLIMIT_MAP, m->nodes, m->node_cap);
	if (i == KEYS_NONE)
		return MAP_NONE;
	/* The root is its own parent. */
	if (i && !m->nodes[i].depth)
		m->nodes[i] = (struct map_node){.name = name,
						.file = file,
						.parent = parent,
						.depth = m->nodes[parent].depth + 1,
						.number = number,
						.kind = kind};
	return i;
}

uint32_t map_common(const struct map *m, uint32_t a, uint32_t b)
{
	while (a != b) {
		if (a && m->nodes[a].depth >= m->nodes[b].depth)
			a = m->nodes[a].parent;
		else
			b = m->nodes[b].parent;
	}
	return a;
}

static void part_free(struct map *m, struct map_part *p)
{
	memlimit_uncharge(&m->part_rows, p, 1);
	memlimit_free(p);
}

static void join_parts(struct map *m, struct map_node *n)
{
	for (struct map_part *p = n->parts; p; p = p->next) {
		struct map_part *next;

		p->slice /= 2;
		while ((next = p->next) && next->slice / 2 == p->slice) {
			map_sums_add(&p->sums, &next->sums);
			p->next = next->next;
			part_free(m, next);
		}
	}
}

static void coarsen(struct map *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->slice_cnt; i += 2) {
		struct map_slice *to = &m->slices[n++], *two = &m->slices[i + 1];

		*to = m->slices[i];
		if (i + 1 == m->slice_cnt || !two->last_ns)
			continue;
		if (!to->last_ns || two->first_ns < to->first_ns)
			to->first_ns = two->first_ns;
		if (two->last_ns > to->last_ns)
			to->last_ns = two->last_ns;
	}
	m->slice_cnt = n;
	m->shift++;
	for (uint32_t i = 0; i < m->node_keys.cnt; i++)
		join_parts(m, &m->nodes[i]);
}

void map_slice_cut(struct map *m, uint64_t ns)
{
	if (++m->cut_cnt >> m->shift < m->slice_cnt)
		return;
	if (m->slice_cnt == MAP_SLICES) {
		coarsen(m);
		if (m->cut_cnt >> m->shift < m->slice_cnt)
			return;
	}
	if (ns < m->slices[m->slice_cnt - 1].begin_ns)
		ns = m->slices[m->slice_cnt - 1].begin_ns;
	m->slices[m->slice_cnt++] = (struct map_slice){.begin_ns = ns};
}

uint32_t map_slice_at(struct map *m, uint64_t ns)
{
	unsigned i = m->slice_cnt - 1;
	struct map_slice *s;

	while (i && m->slices[i].begin_ns > ns)
		i--;
	s = &m->slices[i];
	if (!s->last_ns || ns < s->first_ns)
		s->first_ns = ns;
	if (ns > s->last_ns)
		s->last_ns = ns;
	return i << m->shift;
}

struct map_sums *map_sums_of(struct map *m, uint32_t node, uint32_t slice)
{
	struct map_part **at, *p;

	if (node == MAP_NONE)
		return NULL;
	if (m->part_rows.used >= MAP_SUMS && m->slice_cnt > SLICES_MIN)
		coarsen(m);
	slice = map_slice_now(m, slice);
	at = &m->nodes[node].parts;
	while (*at && (*at)->slice > slice)
		at = &(*at)->next;
	if (*at && (*at)->slice == slice)
		return &(*at)->sums;
	/* Merging slices may not free enough sums. */
	if (!memlimit_charge(&m->part_rows, 1, 2 * MAP_SUMS, MEMLIMIT_MAP))
		return NULL;
	p = memlimit_new(MEMLIMIT_MAP, sizeof(*p));
	if (!p) {
		memlimit_uncharge(&m->part_rows, NULL, 1);
		return NULL;
	}
	p->slice = slice;
	p->next = *at;
	*at = p;
	return &p->sums;
}

void map_tree_free(struct map *m)
{
	for (uint32_t i = 0; i < m->node_keys.cnt && i < m->node_cap; i++) {
		while (m->nodes[i].parts) {
			struct map_part *p = m->nodes[i].parts;

			m->nodes[i].parts = p->next;
			part_free(m, p);
		}
	}
	memlimit_share_free(&m->part_rows);
	memlimit_free(m->nodes);
	keys__free(&m->node_keys);
}
