// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Contexts, which thread has which one, and so on which device a call allocates. */
#include "memory_priv.h"

#include <stdlib.h>
#include <string.h>

/* Threads leave no record when they end. */
#define THREADS_MAX 65536

static void free_threads(struct mem_proc *p)
{
	struct mem_thread *t, *tmp;

	HASH_ITER (hh, p->threads, t, tmp) {
		HASH_DEL(p->threads, t);
		free(t);
	}
	p->last_thread = NULL;
}

static struct mem_thread *thread_of(struct mem_proc *p, uint32_t tid)
{
	struct mem_thread *t = p->last_thread;

	if (t && t->tid == tid)
		return t;
	HASH_FIND(hh, p->threads, &tid, sizeof(tid), t);
	if (!t) {
		if (HASH_COUNT(p->threads) == THREADS_MAX)
			free_threads(p);
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		t->tid = tid;
		HASH_ADD(hh, p->threads, tid, sizeof(t->tid), t);
	}
	p->last_thread = t;
	return t;
}

uint64_t memory__current(struct mem_proc *p, uint32_t tid)
{
	const struct mem_thread *t = thread_of(p, tid);

	return t && t->depth ? t->stack[t->depth - 1] : 0;
}

static void push(struct mem_thread *t, uint64_t ctx)
{
	if (!t)
		return;
	if (t->depth == CTX_STACK_MAX) /* the oldest is forgotten */
		memmove(t->stack, t->stack + 1, --t->depth * sizeof(t->stack[0]));
	t->stack[t->depth++] = ctx;
}

static void pop(struct mem_thread *t)
{
	if (t && t->depth)
		t->depth--;
}

static struct context *context_of(const struct mem_proc *p, uint64_t handle)
{
	struct context *c;

	HASH_FIND(hh, p->contexts, &handle, sizeof(handle), c);
	return c;
}

static struct context *primary_of(const struct mem_proc *p, int device)
{
	struct context *c;

	for (c = p->contexts; c; c = c->hh.next)
		if (c->primary && c->device == device)
			return c;
	return NULL;
}

static struct context *context_add(struct mem_proc *p, uint64_t handle, int device)
{
	struct context *c = context_of(p, handle);

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		c->handle = handle;
		HASH_ADD(hh, p->contexts, handle, sizeof(c->handle), c);
	}
	c->device = device;
	return c;
}

static void context_del(struct memory *m, struct mem_proc *p, uint64_t handle, uint64_t ns)
{
	struct context *c = context_of(p, handle);

	memory__context_gone(m, p, handle, ns);
	if (!c)
		return;
	HASH_DEL(p->contexts, c);
	free(c);
}

int memory__device_of(const struct mem_proc *p, uint64_t ctx)
{
	const struct context *c = ctx ? context_of(p, ctx) : p->contexts;
	int device = c ? c->device : -1;

	if (ctx)
		return device;
	/* The thread's context was set in a way that is not traced: sure only if all are on one
	 * device. */
	if (!p->from_start)
		return -1;
	for (; c; c = c->hh.next)
		if (c->device != device)
			return -1;
	return device;
}

struct dev_row *memory__dev_row(struct memory *m, struct mem_proc *p, int device)
{
	struct dev_row *d;

	for (d = p->devs; d; d = d->next)
		if (d->device == device)
			return d;
	d = m->dev_row_cnt < DEV_ROWS_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return &m->other_dev;
	*d = (struct dev_row){.device = device, .pid = p->pid, .next = p->devs};
	p->devs = m->dev_rows[m->dev_row_cnt++] = d;
	return d;
}

void memory__contexts_free(struct mem_proc *p)
{
	struct context *c, *tmp;

	HASH_ITER (hh, p->contexts, c, tmp) {
		HASH_DEL(p->contexts, c);
		free(c);
	}
	free_threads(p);
}

static void on_create(struct mem_proc *p, const struct event *ev)
{
	struct context *c;
	uint64_t ctx, dev;

	if (!event_arg_u64(ev, "dev", &dev))
		return;
	if (event_arg_u64(ev, "phCtx", &ctx)) { /* cuGreenCtxCreate: not current */
		context_add(p, ctx, dev);
		return;
	}
	if (!event_arg_u64(ev, "pctx", &ctx))
		return;
	c = context_add(p, ctx, dev);
	if (c)
		c->refs = 1;
	push(thread_of(p, ev->tid), ctx);
}

static void on_retain(struct mem_proc *p, const struct event *ev)
{
	uint64_t ctx, dev;
	struct context *c;

	if (!event_arg_u64(ev, "pctx", &ctx))
		return;
	if (event_arg_u64(ev, "dev", &dev)) {
		c = context_add(p, ctx, dev);
		if (c)
			c->primary = true;
	} else { /* cuCtxAttach */
		c = context_of(p, ctx);
	}
	if (c)
		c->refs++;
}

static void on_release(struct memory *m, struct mem_proc *p, const struct event *ev)
{
	struct context *c = NULL;
	uint64_t ctx, dev;

	if (event_arg_u64(ev, "dev", &dev))
		c = primary_of(p, dev);
	else if (event_arg_u64(ev, "ctx", &ctx)) /* cuCtxDetach */
		c = context_of(p, ctx);
	if (!c || !p->from_start) {
		m->reset_unknown = true;
		return;
	}
	if (c->refs && --c->refs)
		return;
	/* The handle of a primary context is the same when it is retained again. */
	if (c->primary)
		memory__context_gone(m, p, c->handle, ev->end_ns);
	else
		context_del(m, p, c->handle, ev->end_ns);
}

static void on_destroy(struct memory *m, struct mem_proc *p, const struct event *ev)
{
	struct mem_thread *t = thread_of(p, ev->tid);
	struct context *c;
	uint64_t ctx, dev;

	if (event_arg_u64(ev, "dev", &dev)) { /* cuDevicePrimaryCtxReset */
		c = primary_of(p, dev);
		if (c)
			memory__context_gone(m, p, c->handle, ev->end_ns);
		else
			m->reset_unknown = true;
	} else if (event_arg_u64(ev, "ctx", &ctx)) {
		if (t && t->depth && t->stack[t->depth - 1] == ctx)
			pop(t);
		context_del(m, p, ctx, ev->end_ns);
	}
}

void memory__context_event(struct memory *m, struct mem_proc *p, const struct event *ev)
{
	struct mem_thread *t = thread_of(p, ev->tid);
	const struct context *c;
	uint64_t ctx, green;

	switch (ev->fn->op) {
	case OP_CREATE:
		on_create(p, ev);
		break;
	case OP_RETAIN:
		on_retain(p, ev);
		break;
	case OP_RELEASE:
		on_release(m, p, ev);
		break;
	case OP_DESTROY:
		on_destroy(m, p, ev);
		break;
	case OP_PUSH:
		if (event_arg_u64(ev, "ctx", &ctx))
			push(t, ctx);
		break;
	case OP_POP:
		pop(t);
		break;
	case OP_SET:
		/* Replaces the top; no context only takes it off. */
		if (strcmp(ev->name, "cuCtxSetCurrent"))
			break;
		pop(t);
		if (event_arg_u64(ev, "ctx", &ctx) && ctx)
			push(t, ctx);
		break;
	case OP_LOOKUP:
		if (!event_arg_u64(ev, "pContext", &ctx) || !event_arg_u64(ev, "hCtx", &green))
			break;
		c = context_of(p, green);
		if (c)
			context_add(p, ctx, c->device);
		break;
	}
}
