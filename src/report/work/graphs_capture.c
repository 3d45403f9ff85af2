/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Captures: what is put on a stream that captures becomes a node of the graph that comes of it. */
#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "graphs_priv.h"

#define PROCS_MAX    65536
#define CAPTURES_MAX 1024

static struct graph_proc *proc_find(struct graphs *g, uint32_t pid)
{
	struct graph_proc *p;

	HASH_FIND(hh, g->procs, &pid, sizeof(pid), p);
	return p;
}

static struct graph_proc *proc_get(struct graphs *g, uint32_t pid)
{
	struct graph_proc *p = proc_find(g, pid);

	if (p)
		return p;
	if (HASH_COUNT(g->procs) == PROCS_MAX) {
		room_full(ROOM_PROCESSES);
		return NULL;
	}
	p = room_new(ROOM_PROCESSES, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->set.quota = room_quota(QUOTA_CAPTURES);
	HASH_ADD(hh, g->procs, pid, sizeof(p->pid), p);
	return p;
}

static struct capturing *capturing_of(struct graph_proc *p, uint64_t origin)
{
	for (unsigned i = 0; i < p->cnt; i++)
		if (p->caps[i].origin == origin)
			return &p->caps[i];
	return NULL;
}

/* The capture that the stream takes part in; NULL: none. */
static struct capturing *capture_of(struct graphs *g, uint32_t pid, uint64_t stream)
{
	struct graph_proc *p = g->capturing_cnt ? proc_find(g, pid) : NULL;
	uint64_t origin;

	if (!p || !capture_set__origin(&p->set, stream, &origin))
		return NULL;
	return capturing_of(p, origin);
}

bool graphs_capture_take(struct graphs *g, uint32_t pid, uint64_t stream, struct capturing *to)
{
	struct graph_proc *p = proc_find(g, pid);
	struct capturing *c = p ? capturing_of(p, stream) : NULL;

	if (!c)
		return false;
	*to = *c;
	*c = p->caps[--p->cnt];
	g->capturing_cnt--;
	capture_set__end(&p->set, stream);
	return true;
}

void graphs_capture_forget(struct graphs *g, uint32_t pid)
{
	struct graph_proc *p = proc_find(g, pid);

	if (!p)
		return;
	g->capturing_cnt -= p->cnt;
	room_free(p->caps);
	capture_set__clear(&p->set);
	HASH_DEL(g->procs, p);
	room_free(p);
}

static void on_begin(struct graphs *g, const struct trace_event *ev)
{
	struct graph_proc *p = proc_get(g, ev->pid);
	struct capturing *c, was;
	uint64_t graph = 0;

	if (!p)
		return;
	/* Its end was lost. */
	graphs_capture_take(g, ev->pid, ev->stream, &was);
	if (p->cnt == CAPTURES_MAX) {
		room_full(ROOM_CAPTURES);
		return;
	}
	c = grow(p->caps, &p->cap, p->cnt + 1, sizeof(*c), ROOM_CAPTURES);
	if (!c)
		return;
	p->caps = c;
	event_arg_u64(ev, "hGraph", &graph); /* cuStreamBeginCaptureToGraph */
	c[p->cnt++] = (struct capturing){.origin = ev->stream, .graph = graph};
	g->capturing_cnt++;
	capture_set__begin(&p->set, ev->stream);
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
	struct graph_proc *p;
	struct capturing *c;

	if (ev->fn->op == OP_CAPTURE_BEGIN) {
		on_begin(g, ev);
		return;
	}
	if (!g->capturing_cnt)
		return;
	p = proc_find(g, ev->pid);
	if (!p || !p->cnt)
		return;
	if (ev->fn->op == OP_RECORD && (ev->has & HAS_CU_EVENT)) {
		capture_set__record(&p->set, ev->cu_event, ev->stream);
	} else if (ev->fn->op == OP_WAIT && (ev->has & HAS_CU_EVENT)) {
		capture_set__wait(&p->set, ev->stream, ev->cu_event);
	} else {
		c = capture_of(g, ev->pid, ev->stream);
		if (c)
			add_node(&c->nodes, ev);
	}
}

bool graphs_stream_captures(const struct report *r, uint32_t pid, uint64_t stream)
{
	struct graphs *g = r->an[AN_GRAPHS];

	return g && g->capturing_cnt && capture_of(g, pid, stream);
}
