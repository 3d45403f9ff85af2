/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The stages of the whole trace, and of each of several processes. */
#include "stage_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/iter/iter.h"

/* Calls that end at the same moment may come in any order. Those of several processors or processes
 * may come a few lines late: 3 in a recording of four ranks. Each call waits for this many more. */
#define WINDOW 64

struct stage_analysis {
	struct stages whole; /* first member: other analyses use it */
	/* Used from the second process on; before that, whole is the first process. */
	struct stages *each[STAGE_PROCS];
	unsigned cnt;
	uint32_t first_pid, last_pid;
	struct stages *last; /* of last_pid; NULL: it has none */
	struct trace_event window[WINDOW];
	uint8_t order[WINDOW]; /* its indexes, in output order */
	unsigned window_cnt;
};

static void *stage__new(struct report *r)
{
	struct stage_analysis *a = calloc(1, sizeof(*a));

	if (a)
		stages_begin(&a->whole, r);
	return a;
}

static void each_free(struct stages *s)
{
	if (s)
		stages_clear(s);
	memlimit_free(s);
}

static void stage__free(void *analysis)
{
	struct stage_analysis *a = analysis;

	for (unsigned i = 0; i < a->cnt; i++)
		each_free(a->each[i]);
	stages_clear(&a->whole);
	free(a);
}

static bool copy_cell(struct stage_cell *to, const struct stage_cell *from)
{
	uint32_t was;

	*to = *from;
	to->rows = NULL;
	to->cap = 0;
	if (!from->cnt)
		return true;
	was = memlimit_push_owner(from->rows);
	to->rows = grow(NULL, &to->cap, from->cnt, sizeof(*to->rows), MEMLIMIT_FUNCTIONS);
	memlimit_pop_owner(was);
	if (to->rows)
		memcpy(to->rows, from->rows, from->cnt * sizeof(*to->rows));
	else
		to->cnt = 0;
	return to->rows;
}

/* Copies whole, which so far has only the first process. */
static struct stages *copy_whole(const struct stages *whole)
{
	struct stages *s = memlimit_new(MEMLIMIT_PROCESSES, sizeof(*s));
	bool is_whole = s;

	if (!s)
		return NULL;
	*s = *whole;
	s->gaps = NULL;
	s->gap_cap = 0;
	if (s->gap_cnt) {
		s->gaps = grow(NULL, &s->gap_cap, s->gap_cnt, sizeof(*s->gaps), MEMLIMIT_FUNCTIONS);
		is_whole = s->gaps;
	}
	if (s->gaps)
		memcpy(s->gaps, whole->gaps, s->gap_cnt * sizeof(*s->gaps));
	for (unsigned i = 0; i < STAGE_CELLS; i++)
		is_whole &= copy_cell(&s->cells[i], &whole->cells[i]);
	is_whole &= copy_cell(&s->tail, &whole->tail);
	if (is_whole)
		return s;
	each_free(s);
	return NULL;
}

static void add_each(struct stage_analysis *a, struct stages *s, uint32_t pid)
{
	if (!s)
		return;
	s->pid = pid;
	a->each[a->cnt++] = s;
}

static struct stages *each_get(struct stage_analysis *a, uint32_t pid)
{
	struct stages *s;

	for (unsigned i = 0; i < a->cnt; i++)
		if (a->each[i]->pid == pid)
			return a->each[i];
	if (a->cnt == STAGE_PROCS)
		return NULL;
	s = memlimit_new(MEMLIMIT_PROCESSES, sizeof(*s));
	if (s)
		stages_begin(s, a->whole.r);
	add_each(a, s, pid);
	return s;
}

static void add(struct stage_analysis *a, const struct trace_event *ev)
{
	if (!a->last_pid) {
		a->first_pid = ev->pid;
	} else if (!a->cnt && ev->pid != a->first_pid) {
		add_each(a, copy_whole(&a->whole), a->first_pid);
		a->last_pid = 0;
	}
	if (a->last_pid != ev->pid)
		a->last = a->cnt ? each_get(a, ev->pid) : NULL;
	a->last_pid = ev->pid;
	stages_add(&a->whole, ev);
	if (a->last)
		stages_add(a->last, ev);
}

/* A moment belongs to the call that ends first; if two end together, to the shorter one. */
static bool is_before(const struct trace_event *a, const struct trace_event *b)
{
	if (a->end_ns != b->end_ns)
		return a->end_ns < b->end_ns;
	if (a->start_ns != b->start_ns)
		return a->start_ns > b->start_ns;
	return a->id != b->id ? a->id < b->id : a->pid < b->pid;
}

/* Processes the first call of the window; returns its index, which is now free. */
static uint8_t take_first(struct stage_analysis *a)
{
	uint8_t place = a->order[0];

	add(a, &a->window[place]);
	memmove(a->order, a->order + 1, --a->window_cnt);
	return place;
}

static void stage_event(void *analysis, const struct trace_event *ev)
{
	struct stage_analysis *a = analysis;
	uint8_t place = a->window_cnt;
	unsigned i;

	if (ev->kind != EVENT_CALL || !ev->fn)
		return;
	if (a->window_cnt == WINDOW)
		place = take_first(a);
	a->window[place] = *ev;
	for (i = a->window_cnt++; i && is_before(ev, &a->window[a->order[i - 1]]); i--)
		a->order[i] = a->order[i - 1];
	a->order[i] = place;
}

static void stage_finish(void *analysis)
{
	struct stage_analysis *a = analysis;
	struct iter_result iter;

	while (a->window_cnt)
		take_first(a);
	iter_result(a->whole.r, &iter);
	stages_end(&a->whole, &iter);
	for (unsigned i = 0; i < a->cnt; i++) {
		iter_of_process(a->whole.r, a->each[i]->pid, &iter);
		stages_end(a->each[i], &iter);
	}
}

void stage_result(const struct report *r, struct stage_result *res)
{
	const struct stage_analysis *a = r->an[AN_STAGE];

	memset(res, 0, sizeof(*res));
	if (a)
		*res = a->whole.res;
}

bool stage_of_process(const struct report *r, uint32_t pid, struct stage_result *res)
{
	const struct stage_analysis *a = r->an[AN_STAGE];

	memset(res, 0, sizeof(*res));
	for (unsigned i = 0; a && i < a->cnt; i++) {
		if (a->each[i]->pid != pid)
			continue;
		*res = a->each[i]->res;
		return true;
	}
	return false;
}

const struct analysis_ops stage_ops = {
	.name = "stages",
	.new = stage__new,
	.event = stage_event,
	.finish = stage_finish,
	.section = &stages_table,
	.print = stages_print,
	.free = stage__free,
	.of_args = true,
};
