/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lists of pending work, and what a stream waits for. */
#include "inflight_priv.h"

#include "decode/cuda.h"
#include "decode/ops.h"

static const struct work *oldest_of(const struct inflight *f, uint32_t i)
{
	const struct inflight_stream *s = &f->streams[i];

	return s->oldest.number > s->done ? &s->oldest : NULL;
}

void inflight__each(const struct inflight *f, void (*fn)(void *ctx, const struct work *x),
		    void *ctx)
{
	uint64_t n = f->floor + 1;
	const struct work *x;

	/* Evicted works are older than the ring: in the order of their numbers. */
	for (uint64_t last = 0;;) {
		const struct work *next = NULL;

		for (uint32_t i = 0; i < f->stream_cnt; i++) {
			x = oldest_of(f, i);
			if (x && x->number > last && (!next || x->number < next->number))
				next = x;
		}
		if (!next)
			break;
		last = next->number;
		fn(ctx, next);
	}
	if (n + f->ring_cap <= f->number)
		n = f->number - f->ring_cap + 1;
	for (; n <= f->number; n++) {
		x = work_at(f, n);
		if (x && inflight_pending(f, x))
			fn(ctx, x);
	}
}

static const struct work *first_of(const struct inflight *f, uint32_t stream)
{
	const struct work *x = oldest_of(f, stream);
	uint64_t n = f->floor + 1;

	if (n + f->ring_cap <= f->number)
		n = f->number - f->ring_cap + 1;
	for (; !x && n <= f->number; n++) {
		x = work_at(f, n);
		if (x && (x->stream != stream || !inflight_pending(f, x)))
			x = NULL;
	}
	return x;
}

/* The first pending work that x waits for, by an event or by the order of the default stream. */
static const struct work *blocker_of(const struct inflight *f, const struct work *x)
{
	const struct inflight_stream *s = &f->streams[x->stream];
	const struct work *y;

	for (unsigned i = 0; i < s->dep_cnt; i++) {
		const struct inflight_dep *d = &s->deps[i];

		if (!d->number || d->number > x->number || d->until <= f->streams[d->on].done)
			continue;
		y = first_of(f, d->on);
		if (y && y->number <= d->until)
			return y;
	}
	for (uint32_t i = 0; is_legacy(s) && i < f->stream_cnt; i++) {
		if (!f->streams[i].is_blocking || !same_context(f, &f->streams[i], s->ctx))
			continue;
		y = first_of(f, i);
		if (y && y->number < x->number)
			return y;
	}
	return NULL;
}

const struct work *inflight__head(const struct inflight *f, uint32_t stream)
{
	const struct work *x = first_of(f, stream), *y;

	/* A stream waits only for older work, so there is no cycle; the limit is for safety. */
	for (unsigned i = 0; x && i < INFLIGHT_STREAMS_MAX && (y = blocker_of(f, x)); i++)
		x = y;
	return x;
}

bool inflight_is_partial(const struct inflight *f)
{
	if (f->untracked || !f->from_start)
		return true;
	for (uint32_t i = 0; i < f->stream_cnt; i++)
		if (f->streams[i].evicted > f->streams[i].done)
			return true;
	return false;
}

void inflight_note(struct inflight *f, const struct work *x)
{
	uint64_t key = (uintptr_t)x->kernel;

	if (key && has_room(&f->completed, key, INFLIGHT_KERNELS_MAX))
		keys_get(&f->completed, key, INFLIGHT_KERNELS_MAX, MEMLIMIT_INFLIGHT);
}

void inflight__note_completed(struct inflight *f)
{
	for (uint32_t i = 0; i < f->stream_cnt; i++)
		if (f->streams[i].oldest.number <= f->streams[i].done)
			inflight_note(f, &f->streams[i].oldest);
	for (uint32_t i = 0; i < f->ring_cap; i++)
		if (f->ring[i].number && !inflight_pending(f, &f->ring[i]))
			inflight_note(f, &f->ring[i]);
}

bool inflight__is_new(struct inflight *f, const struct work *x)
{
	return x->kernel && keys__find(&f->completed, (uintptr_t)x->kernel) == KEYS_NONE;
}

void inflight__found(struct inflight *f, const struct trace_event *ev)
{
	uint64_t key = (uintptr_t)ev->launch.kernel;
	bool by_name = ev->fn->arg_cnt > 2 && ev->fn->args[2].dir == DIR_IN_STR;

	if (f->whole || !(ev->has & HAS_KERNEL) || !by_name || !key)
		return;
	if (has_room(&f->found, key, INFLIGHT_KERNELS_MAX))
		keys_get(&f->found, key, INFLIGHT_KERNELS_MAX, MEMLIMIT_INFLIGHT);
}

bool inflight__may_be_older(struct inflight *f, const struct work *x)
{
	return !f->whole && x->kernel && keys__find(&f->found, (uintptr_t)x->kernel) == KEYS_NONE;
}

unsigned inflight__likely(struct inflight *f, struct work *x)
{
	x->is_new = inflight__is_new(f, x);
	x->may_be_older = inflight__may_be_older(f, x);
	if (x->is_new)
		return x->may_be_older ? LIKELY_MAX - 1 : LIKELY_MAX;
	return op_does(x->fn->op, DOES_LAUNCH) || op_does(x->fn->op, DOES_LAUNCH_GRAPH);
}
