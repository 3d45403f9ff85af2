/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "segments_pending.h"

#include "pending_lines.h"
#include "segments.h"

#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/hash_table.h"
#include "util/out.h"

/* Limit of stored definitions, for a trace in which each call has a new stack. */
#define STACKS_SZ_MAX (16 << 20)

/* The definition of a stack that pending lines refer to. */
struct stack_def {
	struct hash_link link;
	uint64_t id;
	uint64_t line_cnt;
	size_t len;
	char text[];
};
HASH_TABLE(stack_def, id);

struct segments_pending {
	struct sink *s;
	struct sink *own; /* formats lines, in memory */
	struct pending_lines *lines;
	struct stack_def_table stacks;
	size_t stacks_sz;
};

static struct stack_def *find(const struct segments_pending *w, uint64_t id)
{
	return stack_def_table__find(&w->stacks, &id);
}

static void drop(struct segments_pending *w, struct stack_def *k)
{
	stack_def_table__del(&w->stacks, k);
	w->stacks_sz -= sizeof(*k) + k->len;
	free(k);
}

/* Writes a line that has waited. */
static void put(void *ctx, const struct line *l)
{
	struct segments_pending *w = ctx;
	struct stack_def *k = l->stack_id ? find(w, l->stack_id) : NULL;
	struct line stack;

	if (!k || l->kind == EVENT_STACK) {
		segments__line(w->s, l, NULL);
		return;
	}
	stack = (struct line){.text = k->text, .len = k->len};
	segments__line(w->s, l, &stack);
	if (!--k->line_cnt)
		drop(w, k);
}

struct segments_pending *segments_pending__new(struct sink *s)
{
	struct segments_pending *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->s = s;
	w->own = sink__copy(s);
	w->lines = pending_lines__new(PENDING_SZ_MAX, s->base_ns, put, w);
	if (w->own && w->lines)
		return w;
	segments_pending__free(w);
	return NULL;
}

/* Formats an event; the text is valid in own->out until the next one. */
static void word(struct segments_pending *w, const struct trace_event *ev)
{
	w->own->out->len = w->own->out->mark = 0;
	w->own->ops->event(w->own, ev);
}

/* NULL: no memory. */
static struct stack_def *new_kept(struct segments_pending *w, const struct trace_event *ev)
{
	struct trace_event stack = stack_definition(ev);
	struct out *o = w->own->out;
	struct stack_def *k;

	if (w->stacks_sz > STACKS_SZ_MAX)
		pending_lines__release(w->lines);
	word(w, &stack);
	k = calloc(1, sizeof(*k) + o->len);
	if (!k)
		return NULL;
	k->id = ev->stack->id;
	k->len = o->len;
	memcpy(k->text, o->buf, o->len);
	if (stack_def_table__add(&w->stacks, k)) {
		free(k);
		return NULL;
	}
	w->stacks_sz += sizeof(*k) + k->len;
	return k;
}

/* false: no memory. */
static bool add(struct segments_pending *w, const struct trace_event *ev)
{
	struct line l = line_of(ev);
	struct stack_def *k = NULL;

	if (ev->stack && ev->kind != EVENT_STACK) {
		k = find(w, ev->stack->id) ?: new_kept(w, ev);
		if (!k)
			return false;
		/* Count the line first, because lines may be released to make space. */
		k->line_cnt++;
	}
	word(w, ev);
	l.text = w->own->out->buf;
	l.len = w->own->out->len;
	if (pending_lines__add(w->lines, &l, line_waits_for(ev), w->own->gpu_at, now_ns()))
		return true;
	if (k)
		drop(w, k);
	return false;
}

void segments_pending__event(struct segments_pending *w, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU && ev->gpu.call_id)
		w->s->late_cnt += !pending_lines__executed(w->lines, ev);
	if (add(w, ev))
		return;
	pending_lines__release(w->lines);
	segments__now(w->s, ev);
}

void segments_pending__tick(struct segments_pending *w)
{
	pending_lines__tick(w->lines, now_ns());
}

void segments_pending__release(struct segments_pending *w)
{
	pending_lines__release(w->lines);
}

void segments_pending__free(struct segments_pending *w)
{
	if (!w)
		return;
	pending_lines__free(w->lines);
	stack_def_table__free(&w->stacks);
	sink__free_copy(w->own);
	free(w);
}
