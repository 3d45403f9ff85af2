/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Replayed graphs in the map. The execution of a node is below the launch of the graph, on the path
 * of the call that captured it, from the innermost function on that all calls of the capture share.
 * Until the end an executed node has a map node of its own (MAP_REPLAYED), as its captured call is
 * known only then.
 */
#include "map_priv.h"

#include <stdlib.h>

#include "report/kernels/graphs.h"

void map_graph_captured(struct map *m, uint32_t row, uint32_t node)
{
	uint32_t *list;

	if (row == GRAPH_NONE || node == MAP_NONE)
		return;
	list = grow(m->captured, &m->captured_cap, row + 1, sizeof(*list), MEMLIMIT_MAP);
	if (!list)
		return;
	m->captured = list;
	list[row] = node;
}

uint32_t map_graph_node(struct map *m, uint32_t launch, uint32_t row, const char *name)
{
	return map_node_of(m, launch, MAP_REPLAYED, name, NULL, row + 1);
}

/* The node of a captured call; 0: none. */
static uint32_t node_of(const struct map *m, uint32_t row)
{
	return row < m->captured_cap ? m->captured[row] : 0;
}

static bool is_leaf(const struct map_node *n)
{
	return n->kind == MAP_KERNEL || n->kind == MAP_CALL;
}

static bool is_in_python(const struct map *m, uint32_t node)
{
	for (unsigned i = 0; node && i < 8 * MAP_DEPTH; i++) {
		if (m->nodes[node].kind == MAP_PYTHON)
			return true;
		node = m->nodes[node].parent;
	}
	return false;
}

/* Adds n to the counts of a node and of those above it. */
static void count_up(struct map *m, uint32_t node, int n)
{
	for (unsigned i = 0; node && i < 8 * MAP_DEPTH; i++) {
		m->graph_counts[node] += n;
		node = m->nodes[node].parent;
	}
}

static bool is_above_all(const struct map_node *n)
{
	return n->kind == MAP_ROOT || n->kind == MAP_PROCESS || n->kind == MAP_THREAD;
}

/* Counts the calls of a capture that are in Python functions, or all if `all`, in their nodes and
 * above. With --python=launch only launches have frames. Returns the count of the outermost
 * function, or range, that has most of them. */
static uint32_t count_capture(struct map *m, uint32_t capture, bool all, int n)
{
	uint32_t row = graphs_first_captured(m->r, capture), most = 0;
	const struct graph_captured *c;

	for (; (c = graphs_captured(m->r, row)); row = c->next) {
		uint32_t node = node_of(m, row);

		if (!node || (!all && !is_in_python(m, node)))
			continue;
		count_up(m, node, n);
		while (!is_above_all(&m->nodes[m->nodes[node].parent]))
			node = m->nodes[node].parent;
		most = m->graph_counts[node] > most ? m->graph_counts[node] : most;
	}
	return most;
}

/* The innermost node above all calls of a capture that one outermost function has; 0: none. */
static uint32_t find_top(struct map *m, uint32_t capture)
{
	uint32_t most = count_capture(m, capture, false, 1), top = 0;
	bool all = !most;
	uint32_t row = graphs_first_captured(m->r, capture);
	const struct graph_captured *c;

	if (all)
		most = count_capture(m, capture, all, 1);
	for (; (c = graphs_captured(m->r, row)); row = c->next) {
		uint32_t at = node_of(m, row);

		while (at && (is_leaf(&m->nodes[at]) || m->graph_counts[at] < most))
			at = m->nodes[at].parent;
		if (at && (!top || m->nodes[at].depth > m->nodes[top].depth))
			top = at;
	}
	count_capture(m, capture, all, -1);
	return top;
}

/* The same, found once for each capture. */
static uint32_t top_of(struct map *m, uint32_t capture)
{
	uint32_t *list = grow(m->capture_tops, &m->capture_top_cap, capture + 1, sizeof(*list),
			      MEMLIMIT_MAP);

	if (!list)
		return 0;
	m->capture_tops = list;
	if (!m->graph_counts)
		m->graph_counts = memlimit_new(MEMLIMIT_MAP,
					       (m->node_keys.cnt + 1) * sizeof(*m->graph_counts));
	if (!m->graph_counts)
		return 0;
	if (!list[capture])
		list[capture] = 1 + find_top(m, capture);
	return list[capture] - 1;
}

/* Returns true if a node like this one is above the launch, too. */
static bool is_around(const struct map *m, const struct map_node *top, uint32_t launch)
{
	for (unsigned i = 0; launch && i < 8 * MAP_DEPTH; i++) {
		const struct map_node *n = &m->nodes[launch];

		if (n->kind == top->kind && n->name == top->name && n->file == top->file)
			return true;
		launch = n->parent;
	}
	return false;
}

unsigned map_graph_path(struct map *m, uint32_t launch, uint32_t row, uint32_t path[MAP_GRAFT])
{
	const struct graph_captured *c = graphs_captured(m->r, row);
	uint32_t node = node_of(m, row), top, at;
	unsigned cnt = 0, n;

	if (!c || !node)
		return 0;
	top = top_of(m, c->capture);
	for (at = node; at != top && !is_above_all(&m->nodes[at]); at = m->nodes[at].parent)
		if (++cnt == MAP_GRAFT)
			return 0;
	if (!is_above_all(&m->nodes[at]) && !is_around(m, &m->nodes[at], launch))
		cnt++;
	for (at = node, n = cnt; n--; at = m->nodes[at].parent)
		path[n] = at;
	return cnt;
}

bool map_graph_is_top(struct map *m, uint32_t row, uint32_t node)
{
	const struct graph_captured *c = graphs_captured(m->r, row);

	return c && top_of(m, c->capture) == node;
}
