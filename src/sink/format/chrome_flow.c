/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State per process: streams with their last launches, and events with the last launch on their
 * stream when they were recorded. Tables are limited, per process and in total. A process's oldest
 * entry is replaced, at the price of an arrow that is not drawn.
 */
#include "chrome_flow.h"

#include "model/call.h"

#include <stdlib.h>
#include <string.h>

/* Out of memory costs an arrow, never the trace. */
#include "util/hash_table.h"

#define MAX_PROCS   4096
#define MAX_STREAMS 1024
#define MAX_EVENTS  8192
/* Limits of all processes; a process may fill what the others leave free, but has at least one. */
#define ALL_STREAMS 65536
#define ALL_EVENTS  262144

struct stream_key {
	uint64_t handle;
	uint64_t tid; /* of a per-thread default stream, else 0 */
};

struct flow_stream {
	struct hash_link link;
	struct stream_key key;
	/* Newest first. The earlier one is kept for a launch that another thread makes while this
	 * one already waits. */
	struct flow_launch last[2];
	uint64_t waited_seq; /* launches up to this one were waited for */
};
HASH_TABLE(flow_stream, key);

struct flow_event {
	struct hash_link link;
	uint64_t handle;
	struct stream_key stream;
	struct flow_launch launch;
};
HASH_TABLE(flow_event, handle);

struct flow_proc {
	struct hash_link link;
	uint32_t pid;
	struct flow_stream_table streams;
	struct flow_event_table events;
};
HASH_TABLE(flow_proc, pid);

struct flows {
	struct flow_proc_table procs;
	struct flow_proc *cur; /* process of the last event */
	uint64_t seq;
	unsigned stream_cnt, event_cnt; /* of all processes */
	uint64_t forgotten;
};

struct flows *flows__new(void)
{
	return calloc(1, sizeof(struct flows));
}

static void proc_drop(struct flows *f, struct flow_proc *p)
{
	f->stream_cnt -= hash_cnt(&p->streams);
	f->event_cnt -= hash_cnt(&p->events);
	flow_stream_table__free(&p->streams);
	flow_event_table__free(&p->events);
	flow_proc_table__del(&f->procs, p);
	if (f->cur == p)
		f->cur = NULL;
	free(p);
}

void flows__free(struct flows *f)
{
	if (!f)
		return;
	hash_each (p, &f->procs)
		proc_drop(f, p);
	free(f);
}

uint64_t flows__seq(const struct flows *f)
{
	return f->seq;
}

uint64_t flows__forgotten(const struct flows *f)
{
	return f->forgotten;
}

static struct flow_proc *proc_find(struct flows *f, uint32_t pid)
{
	struct flow_proc *p = f->cur;

	if (p && p->pid == pid)
		return p;
	p = flow_proc_table__find(&f->procs, &pid);
	if (p)
		f->cur = p;
	return p;
}

static struct flow_proc *proc_get(struct flows *f, uint32_t pid)
{
	struct flow_proc *p = proc_find(f, pid);

	if (p)
		return p;
	if (hash_cnt(&f->procs) >= MAX_PROCS) {
		proc_drop(f, f->procs.first);
		f->forgotten++;
	}
	p = flow_proc_table__new(&f->procs, &pid);
	if (p)
		f->cur = p;
	return p;
}

static struct stream_key stream_key(const struct trace_event *ev)
{
	struct stream_key k = {.handle = call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0)};

	if (k.handle == CU_STREAM_PER_THREAD)
		k.tid = ev->tid;
	return k;
}

static struct flow_stream *stream_find(struct flow_proc *p, const struct stream_key *k)
{
	return flow_stream_table__find(&p->streams, k);
}

/* Returns whether an entry must be dropped before the process, which has `mine`, gets another. */
static bool is_full(unsigned mine, unsigned max, unsigned all, unsigned all_max)
{
	return mine && (mine >= max || all >= all_max || mine > all_max - all);
}

static struct flow_stream *stream_get(struct flows *f, struct flow_proc *p,
				      const struct stream_key *k)
{
	struct flow_stream *s = stream_find(p, k);

	if (s)
		return s;
	if (is_full(hash_cnt(&p->streams), MAX_STREAMS, f->stream_cnt, ALL_STREAMS)) {
		free(flow_stream_table__pop(&p->streams));
		f->stream_cnt--;
		f->forgotten++;
	}
	s = flow_stream_table__new(&p->streams, k);
	f->stream_cnt += s != NULL;
	return s;
}

static struct flow_event *event_get(struct flows *f, struct flow_proc *p, uint64_t handle)
{
	struct flow_event *e = flow_event_table__find(&p->events, &handle);

	if (e)
		return e;
	if (is_full(hash_cnt(&p->events), MAX_EVENTS, f->event_cnt, ALL_EVENTS)) {
		free(flow_event_table__pop(&p->events));
		f->event_cnt--;
		f->forgotten++;
	}
	e = flow_event_table__new(&p->events, &handle);
	f->event_cnt += e != NULL;
	return e;
}

static void on_launch(struct flows *f, const struct trace_event *ev)
{
	struct stream_key k;
	struct flow_stream *s;
	struct flow_proc *p;

	/* A launch on a capturing stream executes nothing. */
	if (!(ev->has & HAS_STREAM) || ev->capturing)
		return;
	p = proc_get(f, ev->pid);
	if (!p)
		return;
	k = stream_key(ev);
	s = stream_get(f, p, &k);
	if (!s)
		return;
	s->last[1] = s->last[0];
	s->last[0] = (struct flow_launch){ev->start_ns, ++f->seq, ev->tid};
}

static void on_record(struct flows *f, const struct trace_event *ev)
{
	struct flow_proc *p = proc_find(f, ev->pid);
	struct stream_key k;
	struct flow_stream *s;
	struct flow_event *e;

	if (!p || !(ev->has & HAS_CU_EVENT) || !(ev->has & HAS_STREAM))
		return;
	k = stream_key(ev);
	s = stream_find(p, &k);
	e = event_get(f, p, ev->cu_event);
	if (!e)
		return;
	e->stream = k;
	e->launch = s ? s->last[0] : (struct flow_launch){0};
}

static void wait_stream(struct flow_stream *s, const struct trace_event *ev, flow_fn fn, void *ctx)
{
	const struct flow_launch *l = &s->last[0];

	if (l->start_ns >= ev->start_ns)
		l = &s->last[1];
	if (l->seq <= s->waited_seq || l->start_ns >= ev->start_ns)
		return;
	s->waited_seq = l->seq;
	fn(ctx, l, ev);
}

static void wait_event(struct flow_proc *p, const struct trace_event *ev, flow_fn fn, void *ctx)
{
	struct flow_event *e = flow_event_table__find(&p->events, &ev->cu_event);
	struct flow_stream *s;

	if (!e || !e->launch.seq || e->launch.start_ns >= ev->start_ns)
		return;
	s = stream_find(p, &e->stream);
	if (s && e->launch.seq > s->waited_seq) {
		s->waited_seq = e->launch.seq;
		fn(ctx, &e->launch, ev);
	}
	e->launch.seq = 0;
}

static void on_sync(struct flows *f, const struct trace_event *ev, flow_fn fn, void *ctx)
{
	struct flow_proc *p = proc_find(f, ev->pid);

	if (!p)
		return;
	if (ev->has & HAS_CU_EVENT) {
		wait_event(p, ev, fn, ctx);
	} else if (ev->has & HAS_STREAM || ev->type == TYPE_TRANSFER) {
		struct stream_key k = stream_key(ev);
		struct flow_stream *s = stream_find(p, &k);

		if (s)
			wait_stream(s, ev, fn, ctx);
	} else if (!strcmp(ev->name, "cuCtxSynchronize")) {
		hash_each (s, &p->streams)
			wait_stream(s, ev, fn, ctx);
	}
}

/* Handles are reused: forget the old meaning. */
static void on_destroy(struct flows *f, const struct trace_event *ev)
{
	struct flow_proc *p = proc_find(f, ev->pid);
	struct flow_stream *s;
	struct flow_event *e;
	struct stream_key k;

	if (!p)
		return;
	if (ev->type == TYPE_STREAM && ev->has & HAS_STREAM) {
		k = stream_key(ev);
		s = stream_find(p, &k);
		if (s) {
			flow_stream_table__del(&p->streams, s);
			free(s);
			f->stream_cnt--;
		}
	} else if (ev->type == TYPE_EVENT && ev->has & HAS_CU_EVENT) {
		e = flow_event_table__find(&p->events, &ev->cu_event);
		if (e) {
			flow_event_table__del(&p->events, e);
			free(e);
			f->event_cnt--;
		}
	}
}

static void on_process(struct flows *f, const struct trace_event *ev)
{
	struct flow_proc *p = proc_find(f, ev->pid);

	/* fork, exec, exit: drop the state of the process id. */
	if (p)
		proc_drop(f, p);
}

void flows__event(struct flows *f, const struct trace_event *ev, flow_fn fn, void *ctx)
{
	if (ev->kind == EVENT_PROCESS) {
		on_process(f, ev);
		return;
	}
	if (ev->kind != EVENT_CALL || !ev->fn || ev->result || ev->unfinished || ev->abandoned ||
	    (ev->entry_only && ev->type != TYPE_KERNEL && ev->type != TYPE_GRAPH))
		return;
	if (call_does(ev, DOES_LAUNCH | DOES_LAUNCH_GRAPH)) {
		on_launch(f, ev);
		return;
	}
	switch (ev->fn->op) {
	case OP_RECORD:
		on_record(f, ev);
		break;
	case OP_SYNC:
		on_sync(f, ev, fn, ctx);
		break;
	case OP_DESTROY:
		on_destroy(f, ev);
		break;
	default:
		if (ev->type == TYPE_TRANSFER && ev->dir == COPY_DIR_DTOH && !ev->fn->is_async)
			on_sync(f, ev, fn, ctx);
	}
}
