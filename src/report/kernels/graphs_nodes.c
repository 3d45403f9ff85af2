/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Joins the nodes of replayed graphs (--gpu-time=nodes) with the calls that captured them. CUPTI's
 * number of a node has the number of the graph in its upper half, and in its lower half the node's
 * place in the graph: a capture numbers its nodes in the order of their calls. If the kernels'
 * names do not agree with that, nodes are joined in the order of their numbers, without those that
 * execute nothing. If the names do not agree with that either, no node of the graph is joined.
 */
#include <stdlib.h>
#include <string.h>

#include "graphs_priv.h"
#include "model/call.h"
#include "util/order.h"

/* Captured calls, captures, and nodes that were replayed: each of all processes. */
#define ROWS_MAX (1u << 18)
/* Launches of graphs whose executions may still come; indexed by the last bits of their keys. */
#define REPLAYS (1u << 16)

static uint64_t id_key(uint32_t pid, uint64_t id)
{
	return pair_key(id, pid) ?: 1;
}

static void *add_row(void *rows, unsigned *cap, uint32_t cnt, size_t size)
{
	if (cnt == ROWS_MAX) {
		memlimit_reject(MEMLIMIT_GRAPHS);
		return NULL;
	}
	return grow(rows, cap, cnt + 1, size, MEMLIMIT_GRAPHS);
}

/* --- captures --- */

void graph_nodes_begin(struct graph_nodes *n, struct open_capture *c)
{
	struct graph_capture *rows =
		add_row(n->captures, &n->capture_cap, n->capture_cnt, sizeof(*rows));

	if (!rows)
		return;
	n->captures = rows;
	rows[n->capture_cnt++] =
		(struct graph_capture){.first = GRAPH_NONE, .last = GRAPH_NONE, .like = GRAPH_NONE};
	c->capture = n->capture_cnt;
}

/* The first letter of the line of its execution; 0: it executes nothing on a GPU. */
static char what_runs(const struct trace_event *ev)
{
	if (call_does(ev, DOES_LAUNCH))
		return 'k';
	if (ev->type != TYPE_TRANSFER)
		return 0;
	return ev->fn->op == OP_MEMSET ? 'm' : 'c';
}

void graph_nodes_add(struct graph_nodes *n, const struct open_capture *c,
		     const struct trace_event *ev)
{
	struct graph_capture *of = c->capture ? &n->captures[c->capture - 1] : NULL;
	struct graph_captured *rows;
	uint64_t name;

	if (!of)
		return;
	rows = add_row(n->captured, &n->captured_cap, n->captured_cnt, sizeof(*rows));
	if (!rows) {
		of->is_cut = true;
		return;
	}
	n->captured = rows;
	rows = &rows[n->captured_cnt];
	*rows = (struct graph_captured){.operator= ev->operator,
					.stack = ev->stack,
					.capture = c->capture - 1,
					.next = GRAPH_NONE,
					.what = what_runs(ev)};
	if (rows->what == 'k')
		rows->name = ev->launch.kernel;
	name = rows->name ? hash_bytes(rows->name, strlen(rows->name)) : 0;
	of->signature = pair_key(pair_key(of->signature, name), rows->what);
	if (of->last == GRAPH_NONE)
		of->first = n->captured_cnt;
	else
		n->captured[of->last].next = n->captured_cnt;
	of->last = n->captured_cnt++;
	of->cnt++;
	n->latest = id_key(ev->pid, ev->id);
}

/* --- replays --- */

void graph_nodes_launch(struct graph_nodes *n, const struct trace_event *ev, const struct exec *x)
{
	uint64_t key = id_key(ev->pid, ev->id);

	if (!n->replays)
		n->replays = memlimit_new(MEMLIMIT_GRAPHS, REPLAYS * sizeof(*n->replays));
	if (n->replays)
		n->replays[key % REPLAYS] = (struct graph_replay){
			.key = key,
			.capture = x->capture,
			.is_before = !x->capture && x->how == GRAPH_UNKNOWN,
		};
}

void graph_nodes_execution(struct graph_nodes *n, const struct trace_event *ev)
{
	uint64_t key = id_key(ev->pid, ev->gpu.call_id);
	const struct graph_replay *of = n->replays ? &n->replays[key % REPLAYS] : NULL;
	struct graph_executed *row;
	uint32_t i;

	n->current = GRAPH_NONE;
	if (!of || of->key != key || (!of->capture && !of->is_before))
		return;
	if (!ev->gpu.graph_node && (ev->op[0] != 'g' || !of->capture))
		return;
	i = keys_row_max(&n->executed_keys,
			 pair_key(pair_key(ev->gpu.graph_node, ev->pid), of->capture), ROWS_MAX,
			 MEMLIMIT_GRAPHS, n->executed, n->executed_cap);
	if (i == KEYS_NONE)
		return;
	row = &n->executed[i];
	row->node = ev->gpu.graph_node;
	row->capture = of->capture;
	row->name = row->name ?: ev->gpu.kernel;
	row->what = ev->op[0];
	row->cnt++;
	row->ns += ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
	row->captured = GRAPH_NONE;
	n->current = i;
}

/* --- the join --- */

static bool fits(const struct graph_captured *c, const struct graph_executed *x)
{
	if (c->what != x->what)
		return false;
	return !c->name || !x->name || c->name == x->name || !strcmp(c->name, x->name);
}

/* The captured calls of a graph, in their order; all, or those that execute something. */
static uint32_t list_captured(const struct graph_nodes *n, const struct graph_capture *c, bool all,
			      uint32_t *list)
{
	uint32_t cnt = 0;

	for (uint32_t i = c->first; i != GRAPH_NONE; i = n->captured[i].next)
		if (all || n->captured[i].what)
			list[cnt++] = i;
	return cnt;
}

/* Joins the nodes of one graph. by_number: node k is captured call k; else both have the same
 * order.
 */
static bool join_group(struct graph_nodes *n, const uint32_t *rows, uint32_t cnt,
		       const uint32_t *list, uint32_t list_cnt, bool by_number)
{
	if (!by_number && cnt != list_cnt)
		return false;
	for (uint32_t i = 0; i < cnt; i++) {
		const struct graph_executed *x = &n->executed[rows[i]];
		uint32_t at = by_number ? (uint32_t)x->node : i;

		if (at >= list_cnt || !fits(&n->captured[list[at]], x))
			return false;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		struct graph_executed *x = &n->executed[rows[i]];

		x->captured = list[by_number ? (uint32_t)x->node : i];
		n->captured[x->captured].ns += x->ns;
		n->captures[x->capture - 1].ns += x->ns;
		n->joined_cnt += x->cnt;
	}
	return true;
}

static void join_one(struct graph_nodes *n, const uint32_t *rows, uint32_t cnt)
{
	const struct graph_capture *c = &n->captures[n->executed[rows[0]].capture - 1];
	uint32_t *list = c->cnt && !c->is_cut ? malloc(c->cnt * sizeof(*list)) : NULL, all;
	bool ok = false;

	if (list) {
		all = list_captured(n, c, true, list);
		ok = join_group(n, rows, cnt, list, all, true) ||
		     join_group(n, rows, cnt, list, list_captured(n, c, false, list), false);
	}
	for (uint32_t i = 0; i < cnt && !ok; i++)
		n->refused_cnt += n->executed[rows[i]].cnt;
	free(list);
}

static int by_graph(const void *a, const void *b, void *arg)
{
	const struct graph_nodes *n = arg;
	const struct graph_executed *x = &n->executed[*(const uint32_t *)a];
	const struct graph_executed *y = &n->executed[*(const uint32_t *)b];

	return ASCENDING(x->capture, y->capture) ?: ASCENDING(x->node, y->node);
}

static bool is_same_graph(const struct graph_executed *a, const struct graph_executed *b)
{
	return a->capture == b->capture && a->node >> 32 == b->node >> 32;
}

/* A capture whose nodes have no times takes the shares of one with the same kernels in the same
 * order. */
static void find_like(struct graph_nodes *n)
{
	struct keys keys = {0};
	uint32_t *of = NULL, i, at;
	unsigned cap = 0;

	for (i = 0; i < n->capture_cnt; i++) {
		if (!n->captures[i].ns)
			continue;
		n->captures[i].like = i;
		at = keys_row_max(&keys, n->captures[i].signature, ROWS_MAX, MEMLIMIT_GRAPHS, of,
				  cap);
		if (at != KEYS_NONE)
			of[at] = i;
	}
	for (i = 0; i < n->capture_cnt && keys.cnt; i++) {
		struct graph_capture *c = &n->captures[i];

		at = c->ns || c->is_cut ? KEYS_NONE : keys__find(&keys, c->signature);
		if (at < keys.cnt && n->captures[of[at]].cnt == c->cnt)
			c->like = of[at];
	}
	keys__free(&keys);
	memlimit_free(of);
}

void graph_nodes_join(struct graph_nodes *n)
{
	uint32_t *rows = malloc((n->executed_keys.cnt + 1) * sizeof(*rows)), cnt = 0;

	for (uint32_t i = 0; rows && i < n->executed_keys.cnt; i++) {
		if (n->executed[i].capture && n->executed[i].node)
			rows[cnt++] = i;
		else if (n->executed[i].node)
			n->before_cnt += n->executed[i].cnt;
	}
	if (rows)
		qsort_r(rows, cnt, sizeof(*rows), by_graph, n);
	for (uint32_t i = 0, end; i < cnt; i = end) {
		for (end = i + 1; end < cnt; end++)
			if (!is_same_graph(&n->executed[rows[i]], &n->executed[rows[end]]))
				break;
		join_one(n, rows + i, end - i);
	}
	free(rows);
	find_like(n);
}

void graph_nodes_free(struct graph_nodes *n)
{
	memlimit_free(n->captures);
	memlimit_free(n->captured);
	memlimit_free(n->executed);
	memlimit_free(n->replays);
	keys__free(&n->executed_keys);
}

/* --- for other analyses --- */

static const struct graph_nodes *nodes_of(const struct report *r)
{
	const struct graphs *g = r->an[AN_GRAPHS];

	return g ? &g->joined : NULL;
}

uint32_t graphs_captured_row(const struct report *r, const struct trace_event *ev)
{
	const struct graph_nodes *n = nodes_of(r);

	return n && ev->capturing && n->captured_cnt && n->latest == id_key(ev->pid, ev->id)
		       ? n->captured_cnt - 1
		       : GRAPH_NONE;
}

const struct graph_captured *graphs_captured(const struct report *r, uint32_t row)
{
	const struct graph_nodes *n = nodes_of(r);

	return n && row < n->captured_cnt ? &n->captured[row] : NULL;
}

uint32_t graphs_first_captured(const struct report *r, uint32_t capture)
{
	const struct graph_nodes *n = nodes_of(r);

	return n && capture < n->capture_cnt ? n->captures[capture].first : GRAPH_NONE;
}

uint32_t graphs_executed_row(const struct report *r)
{
	const struct graph_nodes *n = nodes_of(r);

	return n && n->current < n->executed_keys.cnt ? n->current : GRAPH_NONE;
}

const struct graph_executed *graphs_executed(const struct report *r, uint32_t row)
{
	const struct graph_nodes *n = nodes_of(r);

	return n && row < n->executed_keys.cnt ? &n->executed[row] : NULL;
}

uint32_t graphs_shares_of(const struct report *r, const struct graph_executed *x, uint64_t *ns)
{
	const struct graph_nodes *n = nodes_of(r);
	uint32_t like = x->capture ? n->captures[x->capture - 1].like : GRAPH_NONE;

	if (x->node || like == GRAPH_NONE)
		return GRAPH_NONE;
	*ns = n->captures[like].ns;
	return n->captures[like].first;
}
