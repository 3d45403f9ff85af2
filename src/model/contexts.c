/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "contexts.h"

#include <stdlib.h>
#include <string.h>

/* There is no record when a thread ends. */
#define THREADS_MAX   65536
#define CONTEXTS_MAX  1024
#define CTX_STACK_MAX 16
/* Quota units: a thread counts as two ranges. */
#define THREAD_UNITS 2

struct ctx_thread {
	struct hash_link link;
	uint32_t tid;
	unsigned depth;
	uint64_t stack[CTX_STACK_MAX];
};
HASH_TABLE_KEY(ctx_thread, tid);

static void free_threads(struct contexts *c)
{
	quota__give(c->quota, &c->share, hash_cnt(&c->threads) * THREAD_UNITS);
	ctx_thread_table__free(&c->threads);
	c->last = NULL;
}

static struct ctx_thread *find_thread(struct contexts *c, uint32_t tid)
{
	struct ctx_thread *t = c->last;

	if (!t || t->tid != tid)
		t = ctx_thread_table__find(&c->threads, &tid);
	if (t)
		c->last = t;
	return t;
}

static struct ctx_thread *thread_of(struct contexts *c, uint32_t tid)
{
	struct ctx_thread *t = find_thread(c, tid);

	if (t)
		return t;
	if (hash_cnt(&c->threads) == THREADS_MAX)
		free_threads(c);
	if (!quota__take(c->quota, &c->share, THREAD_UNITS))
		return NULL;
	t = ctx_thread_table__new(&c->threads, &tid);
	if (!t) {
		quota__give(c->quota, &c->share, THREAD_UNITS);
		return NULL;
	}
	return c->last = t;
}

uint64_t contexts__current(struct contexts *c, uint32_t tid)
{
	const struct ctx_thread *t = find_thread(c, tid);

	return t && t->depth ? t->stack[t->depth - 1] : 0;
}

uint64_t contexts__only(const struct contexts *c)
{
	return hash_cnt(&c->by_handle) == 1 ? c->by_handle.first->handle : 0;
}

static void push(struct ctx_thread *t, uint64_t ctx)
{
	if (!t)
		return;
	if (t->depth == CTX_STACK_MAX) /* drop the oldest */
		memmove(t->stack, t->stack + 1, --t->depth * sizeof(t->stack[0]));
	t->stack[t->depth++] = ctx;
}

static void pop(struct ctx_thread *t)
{
	if (t && t->depth)
		t->depth--;
}

struct context *contexts__find(const struct contexts *c, uint64_t handle)
{
	return context_table__find(&c->by_handle, &handle);
}

static struct context *primary_of(const struct contexts *c, int device)
{
	hash_each (x, &c->by_handle)
		if (x->primary && x->device == device)
			return x;
	return NULL;
}

static struct context *context_add(struct contexts *c, uint64_t handle, int device)
{
	struct context *x = contexts__find(c, handle);

	if (!x) {
		if (hash_cnt(&c->by_handle) == CONTEXTS_MAX || !quota__take(c->quota, &c->share, 1))
			return NULL;
		x = context_table__new(&c->by_handle, &handle);
		if (!x) {
			quota__give(c->quota, &c->share, 1);
			return NULL;
		}
	}
	x->device = device;
	return x;
}

static void context_del(struct contexts *c, uint64_t handle)
{
	struct context *x = contexts__find(c, handle);

	if (!x)
		return;
	context_table__del(&c->by_handle, x);
	free(x);
	quota__give(c->quota, &c->share, 1);
}

static void on_create(struct contexts *c, const struct trace_event *ev)
{
	struct context *x;
	uint64_t ctx, dev;

	if (!event_arg_u64(ev, "dev", &dev))
		return;
	if (event_arg_u64(ev, "phCtx", &ctx)) { /* cuGreenCtxCreate: not current */
		context_add(c, ctx, dev);
		return;
	}
	if (!event_arg_u64(ev, "pctx", &ctx))
		return;
	x = context_add(c, ctx, dev);
	if (x)
		x->refs = 1;
	push(thread_of(c, ev->tid), ctx);
}

static void on_retain(struct contexts *c, const struct trace_event *ev)
{
	uint64_t ctx, dev;
	struct context *x;

	if (!event_arg_u64(ev, "pctx", &ctx))
		return;
	if (event_arg_u64(ev, "dev", &dev)) {
		x = context_add(c, ctx, dev);
		if (x)
			x->primary = true;
	} else { /* cuCtxAttach */
		x = contexts__find(c, ctx);
	}
	if (x)
		x->refs++;
}

/* The context that the call names; NULL: unknown. */
static struct context *context_of(const struct contexts *c, const struct trace_event *ev)
{
	uint64_t ctx, dev;

	if (event_arg_u64(ev, "dev", &dev))
		return primary_of(c, dev);
	return event_arg_u64(ev, "ctx", &ctx) ? contexts__find(c, ctx) : NULL;
}

uint64_t contexts__ended_by(const struct contexts *c, const struct trace_event *ev)
{
	const struct context *x;
	uint64_t ctx, dev;

	if (ev->fn->class != CLASS_CONTEXT)
		return 0;
	if (ev->fn->op == OP_RELEASE) {
		x = context_of(c, ev);
		return x && c->from_start && x->refs <= 1 ? x->handle : 0;
	}
	if (ev->fn->op != OP_DESTROY)
		return 0;
	if (event_arg_u64(ev, "dev", &dev)) { /* cuDevicePrimaryCtxReset */
		x = primary_of(c, dev);
		return x ? x->handle : 0;
	}
	return event_arg_u64(ev, "ctx", &ctx) ? ctx : 0;
}

/* cuDevicePrimaryCtxRelease, cuCtxDetach */
static uint64_t on_release(struct contexts *c, const struct trace_event *ev, bool *unknown)
{
	uint64_t ended = contexts__ended_by(c, ev);
	struct context *x = context_of(c, ev);

	if (!x || !c->from_start) {
		*unknown = true;
		return 0;
	}
	if (x->refs)
		x->refs--;
	/* A primary context keeps its handle when it is retained again. */
	if (ended && !x->primary)
		context_del(c, ended);
	return ended;
}

static uint64_t on_destroy(struct contexts *c, const struct trace_event *ev, bool *unknown)
{
	struct ctx_thread *t = find_thread(c, ev->tid);
	uint64_t ended = contexts__ended_by(c, ev), dev;

	if (event_arg_u64(ev, "dev", &dev)) {
		*unknown |= !ended;
		return ended;
	}
	if (!ended)
		return 0;
	if (t && t->depth && t->stack[t->depth - 1] == ended)
		pop(t);
	context_del(c, ended);
	return ended;
}

static void on_context(struct contexts *c, const struct trace_event *ev)
{
	const struct context *x;
	uint64_t ctx, green;

	switch (ev->fn->op) {
	case OP_CREATE:
		on_create(c, ev);
		break;
	case OP_RETAIN:
		on_retain(c, ev);
		break;
	case OP_PUSH:
		if (event_arg_u64(ev, "ctx", &ctx))
			push(thread_of(c, ev->tid), ctx);
		break;
	case OP_POP:
		pop(find_thread(c, ev->tid));
		break;
	case OP_SET:
		/* Replaces the top; without a context it only pops. */
		if (strcmp(ev->name, "cuCtxSetCurrent"))
			break;
		pop(find_thread(c, ev->tid));
		if (event_arg_u64(ev, "ctx", &ctx) && ctx)
			push(thread_of(c, ev->tid), ctx);
		break;
	case OP_LOOKUP:
		if (!event_arg_u64(ev, "pContext", &ctx) || !event_arg_u64(ev, "hCtx", &green))
			break;
		x = contexts__find(c, green);
		if (x)
			context_add(c, ctx, x->device);
		break;
	}
}

uint64_t contexts__event(struct contexts *c, const struct trace_event *ev, bool *unknown)
{
	/* There is no context before cuInit. */
	if (!c->begun && !strcmp(ev->name, "cuInit"))
		c->from_start = true;
	c->begun = true;
	if (ev->fn->class != CLASS_CONTEXT)
		return 0;
	if (ev->fn->op == OP_RELEASE)
		return on_release(c, ev, unknown);
	if (ev->fn->op == OP_DESTROY)
		return on_destroy(c, ev, unknown);
	on_context(c, ev);
	return 0;
}

void contexts__clear(struct contexts *c)
{
	hash_each (x, &c->by_handle)
		context_del(c, x->handle);
	free_threads(c);
	c->from_start = c->begun = false;
}
