/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "pending_lines.h"

#include <stdlib.h>
#include <string.h>

#include "sink/format/jsonl_priv.h"
#include "model/gpu.h"
#include "util/out.h"

/* Holds a few hundred lines. */
#define CHUNK_SZ (256 << 10)

struct row {
	struct pending_call pending; /* of one that waits */
	struct line line;
	uint64_t added_ns;
	size_t size;
	size_t gpu_at; /* 0: not waiting */
	char text[];
};

struct chunk {
	struct chunk *next; /* next younger one */
	size_t at, len, size;
	_Alignas(struct row) char rows[];
};

struct pending_lines {
	struct pending_calls *calls;
	struct chunk *first, *last;
	size_t size, max;
	uint64_t base_ns;
	struct out *whole; /* the line with its times */
	pending_lines_fn fn;
	void *ctx;
};

struct line line_of(const struct trace_event *ev)
{
	return (struct line){
		.end_ns = ev->unfinished ? 0 : ev->end_ns,
		.stack_id = ev->stack ? ev->stack->id : 0,
		.kind = ev->kind,
		.type = ev->type,
		.unfinished = ev->unfinished,
		.abandoned = ev->abandoned,
	};
}

uint64_t line_waits_for(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && gpu_is_wanted(ev) ? ev->id : 0;
}

void line__count(const struct line *l, struct trace_end *end)
{
	bool is_call = l->kind == EVENT_CALL;

	end->event_cnt += l->kind != EVENT_STACK;
	end->type_cnt[l->type]++;
	end->call_cnt += is_call;
	end->stats[CT_STAT_ENTRIES] += is_call;
	end->stats[CT_STAT_UNFINISHED] += is_call && l->unfinished;
	end->stats[CT_STAT_ABANDONED] += is_call && l->abandoned;
	if (l->end_ns > end->end_ns)
		end->end_ns = l->end_ns;
}

void line__count_all(const struct trace_end *lines, struct trace_end *end)
{
	end->event_cnt += lines->event_cnt;
	for (unsigned i = 0; i < TYPE_CNT; i++)
		end->type_cnt[i] += lines->type_cnt[i];
	end->call_cnt += lines->call_cnt;
	for (unsigned i = 0; i < CT_STAT_CNT; i++)
		end->stats[i] += lines->stats[i];
	if (lines->end_ns > end->end_ns)
		end->end_ns = lines->end_ns;
}

struct pending_lines *pending_lines__new(size_t max, uint64_t base_ns, pending_lines_fn fn,
					 void *ctx)
{
	struct pending_lines *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct pending_lines){.max = max, .base_ns = base_ns, .fn = fn, .ctx = ctx};
	q->calls = pending__new();
	q->whole = out__memory();
	if (q->calls && q->whole)
		return q;
	pending_lines__free(q);
	return NULL;
}

static void put_times(struct pending_lines *q, struct row *r)
{
	struct out *o = q->whole;
	char *p;

	o->len = o->mark = 0;
	out_bytes(o, r->text, r->gpu_at);
	p = jsonl_gpu_times(out_reserve(o, GPU_TIMES_ROOM), q->base_ns, &r->pending.times);
	o->len = p - o->buf;
	out_bytes(o, r->text + r->gpu_at, r->line.len - r->gpu_at);
	r->line.text = o->buf;
	r->line.len = o->len;
}

static struct row *oldest(const struct pending_lines *q)
{
	return q->first ? (struct row *)(q->first->rows + q->first->at) : NULL;
}

static void drop_chunk(struct pending_lines *q)
{
	struct chunk *c = q->first;

	q->first = c->next;
	if (!q->first)
		q->last = NULL;
	q->size -= c->size;
	free(c);
}

static void let_oldest_go(struct pending_lines *q)
{
	struct row *r = oldest(q);

	r->line.text = r->text;
	if (r->gpu_at) {
		pending__release(q->calls, &r->pending.times);
		if (r->pending.times.cnt)
			put_times(q, r);
	}
	q->fn(q->ctx, &r->line);
	q->first->at += r->size;
	if (q->first->at == q->first->len)
		drop_chunk(q);
}

static struct chunk *new_chunk(struct pending_lines *q, size_t row_sz)
{
	size_t size = sizeof(struct chunk) + row_sz;
	struct chunk *c;

	if (size < CHUNK_SZ)
		size = CHUNK_SZ;
	while (q->first && q->size + size > q->max)
		let_oldest_go(q);
	c = size <= q->max ? malloc(size) : NULL;
	if (!c)
		return NULL;
	*c = (struct chunk){.size = size};
	q->size += size;
	if (q->last)
		q->last->next = c;
	else
		q->first = c;
	q->last = c;
	return c;
}

bool pending_lines__add(struct pending_lines *q, const struct line *l, uint64_t id, size_t gpu_at,
			uint64_t now_ns)
{
	size_t align = _Alignof(struct row);
	size_t size = (sizeof(struct row) + l->len + align - 1) & ~(align - 1);
	struct chunk *c = q->last;
	struct row *r;

	if (!c || size > c->size - sizeof(*c) - c->len) {
		pending_lines__tick(q, now_ns);
		c = new_chunk(q, size);
	}
	if (!c) {
		pending_lines__release(q);
		return false;
	}
	r = (struct row *)(c->rows + c->len);
	c->len += size;
	r->line = *l;
	r->added_ns = now_ns;
	r->size = size;
	r->gpu_at = id ? gpu_at : 0;
	if (r->gpu_at)
		pending__add(q->calls, &r->pending, id);
	memcpy(r->text, l->text, l->len);
	return true;
}

bool pending_lines__executed(struct pending_lines *q, const struct trace_event *ev)
{
	return pending__executed(q->calls, ev);
}

void pending_lines__tick(struct pending_lines *q, uint64_t now_ns)
{
	while (q->first && oldest(q)->added_ns + PENDING_NS <= now_ns)
		let_oldest_go(q);
}

void pending_lines__release(struct pending_lines *q)
{
	while (q->first)
		let_oldest_go(q);
}

void pending_lines__free(struct pending_lines *q)
{
	if (!q)
		return;
	while (q->first)
		drop_chunk(q);
	pending__free(q->calls);
	out__close(q->whole);
	free(q);
}
