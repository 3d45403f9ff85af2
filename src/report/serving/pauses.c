/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Host time between two steps, outside calls. Only the calls before and after it are known. If
 * both have Python frames, their common function ran all the time; how its two callees share the
 * time is not known. Without frames the names of the two calls are used.
 */
#include "serving_priv.h"

#include <stdlib.h>

/* The i-th Python frame, counted from the outermost; NULL: fewer frames. */
static const struct stack_frame *frame_at(const struct stack *s, unsigned i)
{
	for (unsigned n = s->frame_cnt; n > 0; n--)
		if (s->frames[n - 1].python && !i--)
			return &s->frames[n - 1];
	return NULL;
}

/* Equal names have one address. */
static bool is_same(const struct stack_frame *a, const struct stack_frame *b)
{
	return a->symbol == b->symbol && a->module == b->module;
}

static bool is_alike(const struct pause *a, const struct pause *b)
{
	return a->in == b->in && a->in_file == b->in_file && a->from == b->from && a->to == b->to;
}

/* NULL: none, the enclosing function made the call itself. */
static const char *name_of(const struct stack_frame *f)
{
	return !f ? NULL : f->symbol ?: "(name unknown)";
}

static bool by_python(struct pause *x, const struct stack *a, const struct stack *b)
{
	const struct stack_frame *f = NULL, *in = NULL, *g;
	unsigned i = 0;

	if (!a || !b)
		return false;
	for (;; i++) {
		f = frame_at(a, i);
		g = frame_at(b, i);
		if (!f || !g || !is_same(f, g))
			break;
		in = f;
	}
	if (!in || !in->symbol)
		return false;
	x->in = in->symbol;
	x->in_file = in->module;
	x->from = name_of(f);
	x->to = name_of(g);
	return true;
}

void serving_pause(struct serving *s, struct serving_thread *t, const struct trace_event *ev)
{
	uint64_t ns = ev->start_ns > t->call_end_ns ? ev->start_ns - t->call_end_ns : 0;
	struct pause x = {.thread = t - s->threads}, *list;
	uint64_t key;
	uint32_t i;

	if (!ns || !t->fn)
		return;
	if (!by_python(&x, t->stack, ev->stack)) {
		x.from = t->fn->name;
		x.to = ev->fn->name;
	}
	key = pair_key(pair_key(pair_key((uintptr_t)x.in, (uintptr_t)x.from), (uintptr_t)x.to),
		       x.thread + 1);
	i = serving_key(&s->pause_keys, key, SERVING_PAUSES_MAX, MEMLIMIT_FUNCTIONS);
	s->lost_pauses += i == KEYS_NONE;
	list = i == KEYS_NONE
		       ? NULL
		       : grow(s->pauses, &s->pause_cap, i + 1, sizeof(*list), MEMLIMIT_FUNCTIONS);
	if (!list) {
		keys__undo(&s->pause_keys, i);
		return;
	}
	s->pauses = list;
	if (!list[i].cnt)
		list[i] = x;
	list[i].cnt++;
	list[i].ns += ns;
	if (ns > list[i].max_ns) {
		list[i].max_ns = ns;
		list[i].at_ns = t->call_end_ns;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct pause *x = a, *y = b;

	return x->ns < y->ns ? 1 : -(x->ns > y->ns);
}

static bool is_mains(const struct serving *s, const struct pause *p)
{
	return p->cnt && (p->thread == s->main || s->threads[p->thread].is_joined);
}

static void add(struct pause *to, const struct pause *x)
{
	to->cnt += x->cnt;
	to->ns += x->ns;
	if (x->max_ns <= to->max_ns)
		return;
	to->max_ns = x->max_ns;
	to->at_ns = x->at_ns;
}

/* Keeps and merges pauses of the serving thread and of joined threads, longest first. */
void serving_sort_pauses(struct serving *s)
{
	struct pause *list = s->pauses;
	unsigned n = 0, same;

	for (unsigned i = 0; i < s->pause_keys.cnt && i < s->pause_cap; i++) {
		if (!is_mains(s, &list[i]))
			continue;
		for (same = 0; same < n && !is_alike(&list[same], &list[i]);)
			same++;
		if (same < n)
			add(&list[same], &list[i]);
		else
			list[n++] = list[i];
	}
	s->pause_keys.cnt = n;
	if (n)
		qsort(s->pauses, n, sizeof(*s->pauses), by_time);
}
