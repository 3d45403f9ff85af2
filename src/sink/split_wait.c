/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "split_wait.h"

#include "held_lines.h"
#include "split.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "util/clock.h"
#include "util/out.h"

/* Definitions of stacks, for a trace whose calls have a new one each. */
#define STACKS_SZ_MAX (16 << 20)

/* The definition of a stack that lines which wait have. */
struct kept {
	uint64_t id;
	uint64_t line_cnt;
	UT_hash_handle hh;
	size_t len;
	char text[];
};

struct split_wait {
	struct sink *s;
	struct sink *own; /* puts lines together, in memory */
	struct held_lines *lines;
	struct kept *stacks;
	size_t stacks_sz;
};

static struct kept *find(const struct split_wait *w, uint64_t id)
{
	struct kept *k;

	HASH_FIND(hh, w->stacks, &id, sizeof(id), k);
	return k;
}

static void drop(struct split_wait *w, struct kept *k)
{
	HASH_DEL(w->stacks, k);
	w->stacks_sz -= sizeof(*k) + k->len;
	free(k);
}

/* A line that has waited. */
static void put(void *ctx, const struct line *l)
{
	struct split_wait *w = ctx;
	struct kept *k = l->stack_id ? find(w, l->stack_id) : NULL;
	struct line stack;

	if (!k || l->kind == EVENT_STACK) {
		split__line(w->s, l, NULL);
		return;
	}
	stack = (struct line){.text = k->text, .len = k->len};
	split__line(w->s, l, &stack);
	if (!--k->line_cnt)
		drop(w, k);
}

struct split_wait *split_wait__new(struct sink *s)
{
	struct split_wait *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->s = s;
	w->own = sink__copy(s);
	w->lines = held_lines__new(HELD_SZ_MAX, s->base_ns, put, w);
	if (w->own && w->lines)
		return w;
	split_wait__free(w);
	return NULL;
}

/* Its text is in own->out until the next. */
static void word(struct split_wait *w, const struct trace_event *ev)
{
	w->own->out->len = w->own->out->mark = 0;
	w->own->ops->event(w->own, ev);
}

/* NULL: no memory. */
static struct kept *new_kept(struct split_wait *w, const struct trace_event *ev)
{
	struct trace_event stack = stack_definition(ev);
	struct out *o = w->own->out;
	struct kept *k;

	if (w->stacks_sz > STACKS_SZ_MAX)
		held_lines__let_go(w->lines);
	word(w, &stack);
	k = calloc(1, sizeof(*k) + o->len);
	if (!k)
		return NULL;
	k->id = ev->stack->id;
	k->len = o->len;
	memcpy(k->text, o->buf, o->len);
	HASH_ADD(hh, w->stacks, id, sizeof(k->id), k);
	if (!k->hh.tbl) {
		free(k);
		return NULL;
	}
	w->stacks_sz += sizeof(*k) + k->len;
	return k;
}

/* false: no memory. */
static bool add(struct split_wait *w, const struct trace_event *ev)
{
	struct line l = line_of(ev);
	struct kept *k = NULL;

	if (ev->stack && ev->kind != EVENT_STACK) {
		k = find(w, ev->stack->id) ?: new_kept(w, ev);
		if (!k)
			return false;
		/* Before lines go to make room. */
		k->line_cnt++;
	}
	word(w, ev);
	l.text = w->own->out->buf;
	l.len = w->own->out->len;
	if (held_lines__add(w->lines, &l, line_waits_for(ev), w->own->gpu_at, now_ns()))
		return true;
	if (k)
		drop(w, k);
	return false;
}

void split_wait__event(struct split_wait *w, const struct trace_event *ev)
{
	if (ev->kind == EVENT_GPU && ev->gpu.call_id)
		w->s->late_cnt += !held_lines__executed(w->lines, ev);
	if (add(w, ev))
		return;
	held_lines__let_go(w->lines);
	split__now(w->s, ev);
}

void split_wait__tick(struct split_wait *w)
{
	held_lines__tick(w->lines, now_ns());
}

void split_wait__let_go(struct split_wait *w)
{
	held_lines__let_go(w->lines);
}

void split_wait__free(struct split_wait *w)
{
	struct kept *k, *next;

	if (!w)
		return;
	held_lines__free(w->lines);
	HASH_ITER (hh, w->stacks, k, next)
		drop(w, k);
	sink__free_copy(w->own);
	free(w);
}
