/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock libcuda: graphs. Nodes run one after another, in the order in which they were added. */
#include "libcuda.h"
#include "tools.h"

#include <stdlib.h>
#include <string.h>

struct node {
	struct obj obj;
	struct work work;
};

struct graph {
	struct obj obj; /* OBJ_GRAPH or OBJ_EXEC */
	struct node **nodes;
	unsigned cnt, room;
};

struct graph *graph_new(void)
{
	return obj_new(OBJ_GRAPH, sizeof(struct graph));
}

static struct node *node_add(struct graph *g, const struct work *w)
{
	struct node *n = obj_new(OBJ_NODE, sizeof(*n));

	if (g->cnt == g->room) {
		g->room = g->room ? g->room * 2 : 16;
		g->nodes = realloc(g->nodes, g->room * sizeof(*g->nodes));
		if (!g->nodes)
			abort();
	}
	n->work = *w;
	g->nodes[g->cnt++] = n;
	return n;
}

void capture_add(struct graph *g, const struct work *w)
{
	node_add(g, w);
}

void graph_free(struct graph *g)
{
	for (unsigned i = 0; i < g->cnt; i++)
		obj_free(g->nodes[i]);
	free(g->nodes);
	obj_free(g);
}

static struct graph *graph_copy(const struct graph *from, enum obj_kind kind)
{
	struct graph *g = obj_new(kind, sizeof(*g));

	for (unsigned i = 0; i < from->cnt; i++)
		node_add(g, &from->nodes[i]->work);
	return g;
}

static int run_create(struct call *c)
{
	return (uint32_t)c->w[1] ? E_VALUE : put64(c->w[0], (uintptr_t)graph_new());
}

static int run_destroy(struct call *c)
{
	struct graph *g = obj_get(c->w[0], OBJ_GRAPH);

	if (!g)
		return E_VALUE;
	graph_free(g);
	return OK;
}

static int run_exec_destroy(struct call *c)
{
	struct graph *g = obj_get(c->w[0], OBJ_EXEC);

	if (!g)
		return E_VALUE;
	graph_free(g);
	return OK;
}

static int run_clone(struct call *c)
{
	struct graph *g = obj_get(c->w[1], OBJ_GRAPH);

	fake_public.instantiated++;
	return g ? put64(c->w[0], (uintptr_t)graph_copy(g, OBJ_GRAPH)) : E_VALUE;
}

static int run_instantiate(struct call *c)
{
	struct graph *g = obj_get(c->w[1], OBJ_GRAPH);

	return g ? put64(c->w[0], (uintptr_t)graph_copy(g, OBJ_EXEC)) : E_VALUE;
}

static int run_launch(struct call *c)
{
	struct graph *g = obj_get(c->w[0], OBJ_EXEC);
	struct stream *s = stream_of(c, c->w[1]);
	int err = OK;

	if (!g || !s)
		return E_VALUE;
	/* Like the driver (580), which accepts no graph in a capture this way. */
	if (s->capture) {
		s->capture_invalid = true;
		return E_CAPTURE;
	}
	for (unsigned i = 0; i < g->cnt && !err; i++) {
		tools_node = i + 1;
		err = work_run(s, &g->nodes[i]->work);
	}
	tools_node = 0;
	return err;
}

static int run_upload(struct call *c)
{
	return obj_get(c->w[0], OBJ_EXEC) && stream_of(c, c->w[1]) ? OK : E_VALUE;
}

static int run_get_nodes(struct call *c)
{
	struct graph *g = obj_get(c->w[0], OBJ_GRAPH);
	uint64_t room;

	if (!g || !readable(c->w[2], 8))
		return E_VALUE;
	room = *(uint64_t *)(uintptr_t)c->w[2];
	for (unsigned i = 0; c->w[1] && i < g->cnt && i < room; i++)
		if (put64(c->w[1] + 8 * i, (uintptr_t)g->nodes[i]))
			return E_VALUE;
	return put64(c->w[2], !c->w[1] || room > g->cnt ? g->cnt : room);
}

/* CUgraphNodeType */
static int run_node_type(struct call *c)
{
	static const unsigned types[] = {
		[WORK_KERNEL] = 0, [WORK_COPY] = 1, [WORK_COPY2D] = 1,
		[WORK_MEMSET] = 2, [WORK_HOST] = 3, [WORK_EMPTY] = 5,
	};
	struct node *n = obj_get(c->w[0], OBJ_NODE);

	return n ? put32(c->w[1], types[n->work.kind]) : E_VALUE;
}

/* (node, graph, dependencies, number, params) */
static int add_node(struct call *c, const struct work *w)
{
	struct graph *g = obj_get(c->w[1], OBJ_GRAPH);

	return g ? put64(c->w[0], (uintptr_t)node_add(g, w)) : E_VALUE;
}

static int run_add_empty(struct call *c)
{
	return add_node(c, &(struct work){.kind = WORK_EMPTY});
}

static int run_add_kernel(struct call *c)
{
	struct work w = {.kind = WORK_KERNEL};

	if (!readable(c->w[4], 64))
		return E_VALUE;
	w.func = *(uint64_t *)(uintptr_t)c->w[4];
	return func_get(w.func) ? add_node(c, &w) : E_HANDLE;
}

static int run_add_host(struct call *c)
{
	struct work w = {.kind = WORK_HOST};

	if (!readable(c->w[4], 16))
		return E_VALUE;
	w.func = ((uint64_t *)(uintptr_t)c->w[4])[0];
	w.src = ((uint64_t *)(uintptr_t)c->w[4])[1];
	return w.func ? add_node(c, &w) : E_VALUE;
}

const struct impl impl_graph[] = {
	{"cuGraphCreate", run_create, 0},
	{"cuGraphDestroy", run_destroy, 0},
	{"cuGraphExecDestroy", run_exec_destroy, 0},
	{"cuGraphClone", run_clone, 0},
	{"cuGraphInstantiate", run_instantiate, IMPL_CONTEXT},
	{"cuGraphInstantiate_v2", run_instantiate, IMPL_CONTEXT},
	{"cuGraphInstantiateWithFlags", run_instantiate, IMPL_CONTEXT},
	{"cuGraphInstantiateWithParams", run_instantiate, IMPL_CONTEXT},
	{"cuGraphLaunch", run_launch, IMPL_CONTEXT},
	{"cuGraphUpload", run_upload, IMPL_CONTEXT},
	{"cuGraphGetNodes", run_get_nodes, 0},
	{"cuGraphNodeGetType", run_node_type, 0},
	{"cuGraphAddEmptyNode", run_add_empty, 0},
	{"cuGraphAddKernelNode", run_add_kernel, 0},
	{"cuGraphAddKernelNode_v2", run_add_kernel, 0},
	{"cuGraphAddHostNode", run_add_host, 0},
	{NULL, NULL, 0},
};
