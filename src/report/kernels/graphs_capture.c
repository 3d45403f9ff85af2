/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Captures: work on a capturing stream becomes a node of the resulting graph. */
#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "graphs_priv.h"

#define PROCS_MAX 65536

static struct graph_proc *proc_find(struct graphs *g, uint32_t pid)
{
	return graph_proc_table__find(&g->procs, &pid);
}

static struct graph_proc *proc_get(struct graphs *g, uint32_t pid)
{
	struct graph_proc *p = proc_find(g, pid);

	if (p)
		return p;
	if (hash_cnt(&g->procs) == PROCS_MAX) {
		memlimit_reject(MEMLIMIT_PROCESSES);
		return NULL;
	}
	p = memlimit_new(MEMLIMIT_PROCESSES, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	if (!graph_proc_table__add(&g->procs, p))
		return p;
	memlimit_reject(MEMLIMIT_PROCESSES);
	memlimit_free(p);
	return NULL;
}

static void forget(struct graphs *g, struct graph_proc *p, struct open_capture *c)
{
	*c = p->caps[--p->cnt];
	g->capturing_cnt--;
}

/* The capture of the call; NULL: it is not known. Saved calls have no number for a capture that
 * began before the trace. */
static struct open_capture *capture_of(struct graph_proc *p, const struct trace_event *ev)
{
	for (unsigned i = 0; p && ev->capture && i < p->cnt; i++)
		if (p->caps[i].id == ev->capture)
			return &p->caps[i];
	return NULL;
}

bool graphs_capture_take(struct graphs *g, const struct trace_event *ev, struct open_capture *to)
{
	struct graph_proc *p = proc_find(g, ev->pid);
	struct open_capture *c = capture_of(p, ev);

	if (!c)
		return false;
	*to = *c;
	forget(g, p, c);
	return true;
}

void graphs_capture_forget(struct graphs *g, uint32_t pid)
{
	struct graph_proc *p = proc_find(g, pid);

	if (!p)
		return;
	g->capturing_cnt -= p->cnt;
	memlimit_free(p->caps);
	graph_proc_table__del(&g->procs, p);
	memlimit_free(p);
}

static void on_begin(struct graphs *g, const struct trace_event *ev)
{
	struct graph_proc *p = proc_get(g, ev->pid);
	struct capture_stream origin = capture_stream_of(ev);
	struct open_capture *c;
	uint64_t graph = 0;

	if (!p)
		return;
	/* Its end was lost. */
	for (unsigned i = p->cnt; i-- > 0;)
		if (p->caps[i].origin.handle == origin.handle &&
		    p->caps[i].origin.tid == origin.tid)
			forget(g, p, &p->caps[i]);
	if (p->cnt == MEMLIMIT_CAPTURES_MAX) {
		memlimit_reject(MEMLIMIT_CAPTURES);
		return;
	}
	c = grow(p->caps, &p->cap, p->cnt + 1, sizeof(*c), MEMLIMIT_CAPTURES);
	if (!c)
		return;
	p->caps = c;
	event_arg_u64(ev, "hGraph", &graph); /* cuStreamBeginCaptureToGraph */
	c[p->cnt++] = (struct open_capture){.id = ev->capture, .origin = origin, .graph = graph};
	graph_nodes_begin(&g->joined, &c[p->cnt - 1]);
	g->capturing_cnt++;
}

static void add_transfer(struct nodes *n, const struct trace_event *ev)
{
	uint64_t cnt = 1;

	if (ev->fn->op == OP_COPY_BATCH && !event_arg_u64(ev, "count", &cnt))
		n->unknown = true;
	n->n[ev->fn->op == OP_MEMSET ? NODE_MEMSET : NODE_MEMCPY] += cnt;
}

static void add_node(struct nodes *n, const struct trace_event *ev)
{
	if (call_does(ev, DOES_LAUNCH)) {
		n->n[NODE_KERNEL]++;
		return;
	}
	switch (ev->fn->op) {
	case OP_LAUNCH_HOST:
	case OP_ALLOC_ASYNC:
	case OP_FREE_ASYNC:
	case OP_STREAM_MEMOP:
		n->n[NODE_OTHER]++;
		break;
	default:
		if (ev->type == TYPE_TRANSFER && ev->fn->is_async)
			add_transfer(n, ev);
	}
}

void graphs_capture_event(struct graphs *g, const struct trace_event *ev)
{
	struct open_capture *c;

	if (ev->fn->op == OP_CAPTURE_BEGIN) {
		on_begin(g, ev);
		return;
	}
	c = ev->capturing ? capture_of(proc_find(g, ev->pid), ev) : NULL;
	if (!c)
		return;
	add_node(&c->nodes, ev);
	graph_nodes_add(&g->joined, c, ev);
}
