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
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

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
	struct stream_key key;
	/* Newest first. The earlier one is kept for a launch that another thread makes while this
	 * one already waits. */
	struct flow_launch last[2];
	uint64_t waited_seq; /* launches up to this one were waited for */
	UT_hash_handle hh;
};

struct flow_event {
	uint64_t handle;
	struct stream_key stream;
	struct flow_launch launch;
	UT_hash_handle hh;
};

struct flow_proc {
	uint32_t pid;
	struct flow_stream *streams;
	struct flow_event *events;
	UT_hash_handle hh;
};

struct flows {
	struct flow_proc *procs;
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
	struct flow_stream *s, *s_next;
	struct flow_event *e, *e_next;

	f->stream_cnt -= HASH_COUNT(p->streams);
	f->event_cnt -= HASH_COUNT(p->events);
	HASH_ITER (hh, p->streams, s, s_next) {
		HASH_DEL(p->streams, s);
		free(s);
	}
	HASH_ITER (hh, p->events, e, e_next) {
		HASH_DEL(p->events, e);
		free(e);
	}
	HASH_DEL(f->procs, p);
	if (f->cur == p)
		f->cur = NULL;
	free(p);
}

void flows__free(struct flows *f)
{
	struct flow_proc *p, *next;

	if (!f)
		return;
	HASH_ITER (hh, f->procs, p, next)
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
	HASH_FIND(hh, f->procs, &pid, sizeof(pid), p);
	if (p)
		f->cur = p;
	return p;
}

static struct flow_proc *proc_get(struct flows *f, uint32_t pid)
{
	struct flow_proc *p = proc_find(f, pid);
	unsigned before = HASH_COUNT(f->procs);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	if (before >= MAX_PROCS) {
		proc_drop(f, f->procs);
		f->forgotten++;
	}
	before = HASH_COUNT(f->procs);
	HASH_ADD(hh, f->procs, pid, sizeof(p->pid), p);
	if (HASH_COUNT(f->procs) == before) {
		free(p);
		return NULL;
	}
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
	struct flow_stream *s;

	HASH_FIND(hh, p->streams, k, sizeof(*k), s);
	return s;
}

/* Whether an entry must be dropped before the process, which has `mine`, gets another. */
static bool is_full(unsigned mine, unsigned max, unsigned all, unsigned all_max)
{
	return mine && (mine >= max || all >= all_max || mine > all_max - all);
}

static struct flow_stream *stream_get(struct flows *f, struct flow_proc *p,
				      const struct stream_key *k)
{
	struct flow_stream *s = stream_find(p, k), *old = p->streams;
	unsigned before;

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->key = *k;
	if (is_full(HASH_COUNT(p->streams), MAX_STREAMS, f->stream_cnt, ALL_STREAMS)) {
		HASH_DEL(p->streams, old);
		free(old);
		f->stream_cnt--;
		f->forgotten++;
	}
	before = HASH_COUNT(p->streams);
	HASH_ADD(hh, p->streams, key, sizeof(s->key), s);
	if (HASH_COUNT(p->streams) == before) {
		free(s);
		return NULL;
	}
	f->stream_cnt++;
	return s;
}

static struct flow_event *event_get(struct flows *f, struct flow_proc *p, uint64_t handle)
{
	struct flow_event *e, *old = p->events;
	unsigned before;

	HASH_FIND(hh, p->events, &handle, sizeof(handle), e);
	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->handle = handle;
	if (is_full(HASH_COUNT(p->events), MAX_EVENTS, f->event_cnt, ALL_EVENTS)) {
		HASH_DEL(p->events, old);
		free(old);
		f->event_cnt--;
		f->forgotten++;
	}
	before = HASH_COUNT(p->events);
	HASH_ADD(hh, p->events, handle, sizeof(e->handle), e);
	if (HASH_COUNT(p->events) == before) {
		free(e);
		return NULL;
	}
	f->event_cnt++;
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
	struct flow_event *e;
	struct flow_stream *s;

	HASH_FIND(hh, p->events, &ev->cu_event, sizeof(ev->cu_event), e);
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
	struct flow_stream *s, *next;
	struct stream_key k;

	if (!p)
		return;
	if (ev->has & HAS_CU_EVENT) {
		wait_event(p, ev, fn, ctx);
	} else if (ev->has & HAS_STREAM || ev->type == TYPE_TRANSFER) {
		k = stream_key(ev);
		s = stream_find(p, &k);
		if (s)
			wait_stream(s, ev, fn, ctx);
	} else if (!strcmp(ev->name, "cuCtxSynchronize")) {
		HASH_ITER (hh, p->streams, s, next)
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
			HASH_DEL(p->streams, s);
			free(s);
			f->stream_cnt--;
		}
	} else if (ev->type == TYPE_EVENT && ev->has & HAS_CU_EVENT) {
		HASH_FIND(hh, p->events, &ev->cu_event, sizeof(ev->cu_event), e);
		if (e) {
			HASH_DEL(p->events, e);
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
