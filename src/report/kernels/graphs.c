/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CUDA graphs: their origin (captured, built node by node, cloned), their nodes, and the number of
 * launches of their executable forms. The content of a graph is known if the trace has all calls
 * that added nodes. Nodes of child graphs count as nodes of the enclosing graph, in addition to the
 * child's own node.
 */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"
#include "model/call.h"
#include "model/capture.h"
#include "model/event_path.h"
#include "graphs_priv.h"
#include "util/order.h"

/* NULL: there is none. */
static void *live_get(struct live_set *l, uint64_t handle, uint32_t pid)
{
	uint32_t i = keys__find(&l->keys, pair_key(handle, pid));

	return i < l->keys.cnt && i < l->cap ? l->items[i] : NULL;
}

/* Replaces any item with this handle. false: out of memory. */
static bool live_set(struct live_set *l, uint64_t handle, uint32_t pid, void *item)
{
	uint32_t i =
		keys_get(&l->keys, pair_key(handle, pid), MEMLIMIT_GRAPHS_MAX, MEMLIMIT_GRAPHS);
	void **items = i == KEYS_NONE
			       ? NULL
			       : grow(l->items, &l->cap, i + 1, sizeof(*items), MEMLIMIT_GRAPHS);

	if (!items)
		return false;
	l->items = items;
	memlimit_free(items[i]);
	items[i] = item;
	return true;
}

static void live_free(struct live_set *l)
{
	for (unsigned i = 0; i < l->keys.cnt && i < l->cap; i++)
		memlimit_free(l->items[i]);
	memlimit_free(l->items);
	keys__free(&l->keys);
}

static void nodes_add(struct nodes *to, const struct nodes *from)
{
	for (int i = 0; i < NODE_KIND_CNT; i++)
		to->n[i] += from->n[i];
	to->unknown |= from->unknown;
}

static void add_nodes_of(struct nodes *to, const struct graph *from)
{
	nodes_add(to, &from->nodes);
	to->unknown |= !from->seen;
}

static void graphs__free(void *a)
{
	struct graphs *g = a;

	while (g->procs.first)
		graphs_capture_forget(g, g->procs.first->pid);
	live_free(&g->graphs);
	live_free(&g->execs);
	keys__free(&g->node_keys);
	memlimit_free(g->nodes);
	graph_nodes_free(&g->joined);
	free(g);
}

/* Adds a new graph; it replaces any graph with its handle. */
static struct graph *graph_new(struct graphs *g, uint64_t handle, uint32_t pid, enum graph_how how)
{
	struct graph *x = memlimit_new(MEMLIMIT_GRAPHS, sizeof(*x));

	if (!x)
		return NULL;
	*x = (struct graph){.handle = handle, .pid = pid, .how = how, .seen = how != GRAPH_UNKNOWN};
	if (live_set(&g->graphs, handle, pid, x))
		return x;
	memlimit_free(x);
	return NULL;
}

/* The graph in an argument of a call. An unseen graph is added, with unknown nodes. */
static struct graph *graph_of(struct graphs *g, const struct trace_event *ev, const char *arg)
{
	struct graph *x;
	uint64_t handle;

	if (!event_arg_u64(ev, arg, &handle))
		return NULL;
	x = live_get(&g->graphs, handle, ev->pid);
	return x ? x : graph_new(g, handle, ev->pid, GRAPH_UNKNOWN);
}

static struct exec *exec_of(struct graphs *g, const struct trace_event *ev)
{
	uint64_t handle;
	struct exec *x;

	if (!event_arg_u64(ev, "hGraphExec", &handle))
		return NULL;
	x = live_get(&g->execs, handle, ev->pid);
	if (x)
		return x;
	x = memlimit_new(MEMLIMIT_GRAPHS, sizeof(*x));
	if (!x)
		return NULL;
	*x = (struct exec){.handle = handle, .pid = ev->pid, .first_ns = ev->start_ns};
	x->nodes.unknown = true;
	if (live_set(&g->execs, handle, ev->pid, x))
		return x;
	memlimit_free(x);
	return NULL;
}

/* Adds a destroyed one to the list; in a full list it replaces the least launched one. */
static void keep(struct graphs *g, const struct exec *x)
{
	struct exec *least = g->list;

	if (g->list_cnt < GRAPHS_LIST) {
		g->list[g->list_cnt++] = *x;
		return;
	}
	g->rejected++;
	for (unsigned i = 1; i < g->list_cnt; i++)
		if (g->list[i].launches < least->launches)
			least = &g->list[i];
	if (least->launches < x->launches)
		*least = *x;
}

static void on_capture_end(struct graphs *g, const struct trace_event *ev)
{
	struct open_capture c = {0};
	bool begun = true;
	struct graph *x;
	uint64_t handle;

	if (!ev->is_error || capture_is_over(ev->result))
		begun = graphs_capture_take(g, ev, &c);
	g->capture_failures += ev->is_error;
	if (ev->is_error || !event_arg_u64(ev, "phGraph", &handle) || !handle)
		return;
	g->captures++;
	x = live_get(&g->graphs, handle, ev->pid);
	if (!x)
		x = graph_new(g, handle, ev->pid, GRAPH_CAPTURED);
	if (!x)
		return;
	/* Nodes added by hand during the capture make its handle known before the capture ends. */
	x->seen |= begun && !c.graph;
	x->how = GRAPH_CAPTURED;
	x->capture_id = ev->id;
	x->capture = c.graph ? 0 : c.capture;
	nodes_add(&x->nodes, &c.nodes);
	x->nodes.unknown |= !begun;
}

/* Kind of node, from the name of cuGraphAdd...Node or the type of cuGraphAddNode. */
static int kind_of(const struct trace_event *ev, bool *unknown)
{
	uint64_t type;

	if (!strncmp(ev->name, "cuGraphAddKernel", 16))
		return NODE_KERNEL;
	if (!strncmp(ev->name, "cuGraphAddMemcpy", 16))
		return NODE_MEMCPY;
	if (!strncmp(ev->name, "cuGraphAddMemset", 16))
		return NODE_MEMSET;
	if (strcmp(ev->name, "cuGraphAddNode"))
		return NODE_OTHER;
	if (!event_path_u64(ev, "nodeParams.type", &type)) {
		*unknown = true;
		return NODE_OTHER;
	}
	/* Their graphs are in the union, which is not read. */
	*unknown = type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
	return type == CU_GRAPH_NODE_TYPE_KERNEL   ? NODE_KERNEL
	       : type == CU_GRAPH_NODE_TYPE_MEMCPY ? NODE_MEMCPY
	       : type == CU_GRAPH_NODE_TYPE_MEMSET ? NODE_MEMSET
						   : NODE_OTHER;
}

static void on_add(struct graphs *g, const struct trace_event *ev)
{
	uint64_t node, child;
	bool unknown = false;
	struct graph *x, *y;
	int kind;
	uint32_t i;

	if (!event_arg_u64(ev, "phGraphNode", &node))
		return; /* a dependency */
	x = graph_of(g, ev, "hGraph");
	if (!x)
		return;
	kind = kind_of(ev, &unknown);
	x->nodes.n[kind]++;
	x->nodes.unknown |= unknown;
	if (event_arg_u64(ev, "childGraph", &child)) {
		y = graph_of(g, ev, "childGraph");
		if (y)
			add_nodes_of(&x->nodes, y);
	}
	i = keys_row(&g->node_keys, pair_key(node, ev->pid), MEMLIMIT_GRAPHS, g->nodes,
		     g->node_cap);
	if (i == KEYS_NONE)
		return;
	g->nodes[i] = (struct graph_node){x->handle, kind};
}

/* The graph of a captured node is not known: from now on no node count is certain. */
static void on_destroy_node(struct graphs *g, const struct trace_event *ev, uint64_t node)
{
	uint32_t i = keys__find(&g->node_keys, pair_key(node, ev->pid));
	struct graph_node *n = i < g->node_keys.cnt && i < g->node_cap ? &g->nodes[i] : NULL;
	struct graph *x = n && n->graph ? live_get(&g->graphs, n->graph, ev->pid) : NULL;

	if (x && x->nodes.n[n->kind]) {
		x->nodes.n[n->kind]--;
		n->graph = 0;
		return;
	}
	for (i = 0; i < g->graphs.keys.cnt && i < g->graphs.cap; i++) {
		x = g->graphs.items[i];
		if (x && x->pid == ev->pid)
			x->nodes.unknown = true;
	}
}

static void on_destroy(struct graphs *g, const struct trace_event *ev)
{
	uint64_t handle;
	struct exec *x;

	if (event_arg_u64(ev, "hGraphExec", &handle)) {
		x = live_get(&g->execs, handle, ev->pid);
		if (!x)
			return;
		x->destroyed = true;
		keep(g, x);
		live_set(&g->execs, handle, ev->pid, NULL);
	} else if (event_arg_u64(ev, "hGraph", &handle)) {
		live_set(&g->graphs, handle, ev->pid, NULL);
	} else if (event_arg_u64(ev, "hNode", &handle)) {
		on_destroy_node(g, ev, handle);
	}
}

static void on_create(struct graphs *g, const struct trace_event *ev)
{
	struct nodes nodes = {0};
	const struct graph *from;
	uint64_t handle, capture_id;
	uint32_t capture;
	struct graph *x;

	if (event_arg_u64(ev, "phGraph", &handle)) {
		g->built++;
		graph_new(g, handle, ev->pid, GRAPH_BUILT);
	} else if (event_arg_u64(ev, "phGraphClone", &handle)) {
		g->clones++;
		from = graph_of(g, ev, "originalGraph");
		if (!from)
			return;
		add_nodes_of(&nodes, from);
		capture_id = from->capture_id;
		capture = from->capture;
		x = graph_new(g, handle, ev->pid, GRAPH_CLONED);
		if (x) {
			x->nodes = nodes;
			x->capture_id = capture_id;
			x->capture = capture;
		}
	}
}

static void on_instantiate(struct graphs *g, const struct trace_event *ev)
{
	const struct graph *from = graph_of(g, ev, "hGraph");
	struct exec *x, *old;
	uint64_t handle;

	g->instantiations++;
	if (!from || !event_arg_u64(ev, "phGraphExec", &handle))
		return;
	old = live_get(&g->execs, handle, ev->pid);
	if (old) /* its end was lost */
		keep(g, old);
	x = memlimit_new(MEMLIMIT_GRAPHS, sizeof(*x));
	if (!x)
		return;
	*x = (struct exec){.handle = handle,
			   .graph = from->handle,
			   .pid = ev->pid,
			   .how = from->how,
			   .instantiate_ns = event_duration_ns(ev),
			   .capture_id = from->capture_id,
			   .capture = from->capture,
			   .first_ns = ev->start_ns};
	add_nodes_of(&x->nodes, from);
	if (!live_set(&g->execs, handle, ev->pid, x))
		memlimit_free(x);
}

static void on_launch(struct graphs *g, const struct trace_event *ev)
{
	struct exec *x;

	x = exec_of(g, ev);
	g->launches++;
	g->launch_ns += event_duration_ns(ev);
	g->kernels_unknown |= !x || x->nodes.unknown;
	if (!x)
		return;
	g->kernels_run += x->nodes.n[NODE_KERNEL];
	graph_nodes_launch(&g->joined, ev, x);
	x->launches++;
	x->launch_ns += event_duration_ns(ev);
}

static void on_update(struct graphs *g, const struct trace_event *ev)
{
	struct exec *x = exec_of(g, ev);

	if (!x)
		return; /* dependencies of a capture, or of a graph */
	x->updates++;
	g->updates++;
}

/* cuGraphNodeSetEnabled: the number of kernels that then run is not tracked. */
static void on_set(struct graphs *g, const struct trace_event *ev)
{
	struct exec *x;
	uint64_t enabled;

	if (!event_arg_u64(ev, "isEnabled", &enabled))
		return;
	x = exec_of(g, ev);
	if (x)
		x->nodes.unknown = true;
}

static void on_graph_call(struct graphs *g, const struct trace_event *ev)
{
	if (ev->fn->op == OP_CAPTURE_END) {
		on_capture_end(g, ev);
		return;
	}
	if (ev->is_error) {
		g->capture_failures += ev->fn->op == OP_CAPTURE_BEGIN;
		return;
	}
	switch (ev->fn->op) {
	case OP_CREATE:
		on_create(g, ev);
		break;
	case OP_ADD:
		on_add(g, ev);
		break;
	case OP_DESTROY:
		on_destroy(g, ev);
		break;
	case OP_INSTANTIATE:
		on_instantiate(g, ev);
		break;
	case OP_GRAPH_LAUNCH:
		on_launch(g, ev);
		break;
	case OP_UPDATE:
		on_update(g, ev);
		break;
	case OP_SET:
		on_set(g, ev);
		break;
	}
}

/* The process ended, or replaced its program. */
static void on_process(struct graphs *g, const struct trace_event *ev)
{
	if (!strcmp(ev->name, "fork"))
		return;
	graphs_capture_forget(g, ev->pid);
	for (unsigned i = 0; i < g->execs.keys.cnt && i < g->execs.cap; i++) {
		struct exec *x = g->execs.items[i];

		if (!x || x->pid != ev->pid)
			continue;
		keep(g, x);
		memlimit_free(x);
		g->execs.items[i] = NULL;
	}
	for (unsigned i = 0; i < g->graphs.keys.cnt && i < g->graphs.cap; i++) {
		struct graph *x = g->graphs.items[i];

		if (!x || x->pid != ev->pid)
			continue;
		memlimit_free(x);
		g->graphs.items[i] = NULL;
	}
}

static void graphs_event(void *a, const struct trace_event *ev)
{
	struct graphs *g = a;

	if (ev->kind == EVENT_PROCESS)
		on_process(g, ev);
	if (ev->kind == EVENT_GPU)
		graph_nodes_execution(&g->joined, ev);
	if (!call_was_made(ev))
		return;
	if (ev->fn->class == CLASS_GRAPH)
		on_graph_call(g, ev);
	if ((g->capturing_cnt || ev->fn->op == OP_CAPTURE_BEGIN) && !ev->is_error &&
	    (ev->has & HAS_STREAM))
		graphs_capture_event(g, ev);
}

static int by_launches(const void *a, const void *b)
{
	const struct exec *x = a, *y = b;

	return DESCENDING(x->launches, y->launches) ?: ASCENDING(x->first_ns, y->first_ns);
}

static void graphs_finish(void *a)
{
	struct graphs *g = a;

	for (unsigned i = 0; i < g->execs.keys.cnt && i < g->execs.cap; i++)
		if (g->execs.items[i])
			keep(g, g->execs.items[i]);
	qsort(g->list, g->list_cnt, sizeof(*g->list), by_launches);
	graph_nodes_join(&g->joined);
}

/* NULL: it is not known. */
static const struct exec *launched_by(const struct report *r, const struct trace_event *ev)
{
	struct graphs *g = r->an[AN_GRAPHS];
	uint64_t handle;

	if (!g || !event_arg_u64(ev, "hGraphExec", &handle))
		return NULL;
	return live_get(&g->execs, handle, ev->pid);
}

uint64_t graphs_capture_of(const struct report *r, const struct trace_event *ev)
{
	const struct exec *x = launched_by(r, ev);

	return x ? x->capture_id : 0;
}

uint64_t graphs_kernels_of(const struct report *r, const struct trace_event *ev)
{
	const struct exec *x = launched_by(r, ev);

	return x ? x->nodes.n[NODE_KERNEL] : 0;
}

const struct analysis_ops graphs_ops = {
	.name = "graphs",
	.size = STATE_SIZE(struct graphs),
	.event = graphs_event,
	.finish = graphs_finish,
	.section = &graphs_table,
	.print = graphs_print,
	.free = graphs__free,
	.of_args = true,
	.needs = "graph",
};
