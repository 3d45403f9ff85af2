/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cuts the critical path at the steps. A step lasts from the end of the iteration before it to the
 * end of its own, so the host's work between iterations belongs to it. */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/map/map.h"

#define LOOK_AHEAD 1024 /* calls */

struct part_row {
	struct step_part part;
	uint64_t longest_ns;
	uint32_t place; /* call of the longest piece; STEP_NONE: none */
};

struct part_rows {
	struct part_row *rows;
	uint32_t cnt, cap;
};

/* Where a call was made: by its own stack, or by that of the next launch of the same operator. */
static const struct step_call *with_stack(const struct step_graph *g, uint32_t call)
{
	const struct step_call *c = &g->calls[call];

	for (uint32_t i = call; i < g->call_cnt && i - call <= LOOK_AHEAD; i++) {
		const struct step_call *n = &g->calls[i];

		if (n->tid == c->tid && n->stack && n->operator_id == c->operator_id &&
		    (i == call || c->operator_id))
			return n;
	}
	return NULL;
}

static const struct stack_frame *python_frame(const struct step_graph *g, uint32_t call)
{
	const struct step_call *c = call == STEP_NONE ? NULL : with_stack(g, call);
	const struct stack_frame *first = NULL;

	for (unsigned i = 0; c && i < c->stack->frame_cnt; i++) {
		const struct stack_frame *f = &c->stack->frames[i];

		if (!f->python || !f->symbol)
			continue;
		if (!map_is_noise(f))
			return f;
		first = first ? first : f;
	}
	return first;
}

static const char *name_of(const struct step_graph *g, const struct step_piece *p)
{
	const struct stack_frame *f;

	if (p->exec != STEP_NONE && p->kind != STEP_LATENCY && p->kind != STEP_GAP)
		return g->execs[p->exec].kernel;
	if (p->kind == STEP_BETWEEN) {
		f = python_frame(g, p->call);
		return f ? f->symbol : NULL;
	}
	return p->call != STEP_NONE && p->exec == STEP_NONE ? g->calls[p->call].fn->name : NULL;
}

static bool add_piece(struct part_rows *to, const struct step_graph *g, const struct step_piece *p,
		      uint64_t ns)
{
	const char *name = name_of(g, p);
	struct part_row *row = to->rows, *rows;

	while (row < to->rows + to->cnt && (row->part.kind != p->kind || row->part.name != name))
		row++;
	if (row == to->rows + to->cnt) {
		if (to->cnt == to->cap) {
			rows = realloc(to->rows, (2 * to->cap + 64) * sizeof(*rows));
			if (!rows)
				return false;
			to->rows = rows;
			to->cap = 2 * to->cap + 64;
		}
		row = &to->rows[to->cnt++];
		*row = (struct part_row){.part = {.kind = p->kind, .name = name},
					 .place = STEP_NONE};
	}
	row->part.ns += ns;
	row->part.cnt++;
	if (ns > row->longest_ns) {
		row->longest_ns = ns;
		row->place = p->call;
	}
	return true;
}

static int by_time(const void *a, const void *b)
{
	const struct part_row *x = a, *y = b;

	if (x->part.ns != y->part.ns)
		return x->part.ns < y->part.ns ? 1 : -1;
	if (x->part.kind != y->part.kind)
		return x->part.kind < y->part.kind ? -1 : 1;
	if (!x->part.name || !y->part.name)
		return !x->part.name - !y->part.name;
	return strcmp(x->part.name, y->part.name);
}

static void set_parts(struct step *step, struct part_rows *rows, const struct step_graph *g)
{
	unsigned shown = rows->cnt > STEP_PARTS ? STEP_PARTS - 1 : rows->cnt;
	struct step_part *rest = &step->parts[STEP_PARTS - 1];

	qsort(rows->rows, rows->cnt, sizeof(*rows->rows), by_time);
	for (uint32_t i = 0; i < rows->cnt; i++) {
		struct part_row *row = &rows->rows[i];

		if (i >= shown) {
			rest->kind = STEP_REST;
			rest->ns += row->part.ns;
			rest->cnt += row->part.cnt;
			continue;
		}
		if (row->place != STEP_NONE) {
			row->part.fn = g->calls[row->place].fn;
			row->part.operator= g->calls[row->place].operator;
			row->part.frame = python_frame(g, row->place);
		}
		step->parts[i] = row->part;
	}
	step->part_cnt = shown + (rows->cnt > shown);
}

/* Time in which some execution ran. They are in the order of their ends. */
static uint64_t busy_ns(const struct step_graph *g, const struct step_window *win)
{
	uint64_t sum = 0, free_ns = win->end_ns;

	for (uint32_t i = g->exec_cnt; i--;) {
		const struct step_exec *x = &g->execs[i];
		uint64_t from = x->start_ns > win->begin_ns ? x->start_ns : win->begin_ns;
		uint64_t to = x->end_ns < free_ns ? x->end_ns : free_ns;

		if (x->end_ns <= win->begin_ns)
			break;
		if (to <= from)
			continue;
		sum += to - from;
		free_ns = from;
	}
	return sum;
}

/* Time in which the threads of the path were in calls that waited for work still running. */
static uint64_t blocked_ns(const struct steps *s, const struct step_window *win)
{
	const struct step_graph *g = &s->graph;
	uint64_t sum = 0;

	for (unsigned t = 0; t < g->thread_cnt; t++) {
		for (uint32_t i = 0; i < g->threads[t].cnt && (!t || g->threads[t].alternates);
		     i++) {
			const struct step_seg *seg = &g->segs[g->threads[t].first + i];
			uint64_t from = seg->start_ns, to;

			if (from >= win->end_ns)
				break;
			if (seg->end_ns <= win->begin_ns)
				continue;
			to = step_blocked_until(s, seg->call);
			to = to < seg->end_ns ? to : seg->end_ns;
			to = to < win->end_ns ? to : win->end_ns;
			from = from > win->begin_ns ? from : win->begin_ns;
			sum += to > from ? to - from : 0;
		}
	}
	return sum < win->end_ns - win->begin_ns ? sum : win->end_ns - win->begin_ns;
}

static bool make_step(const struct steps *s, const struct step_window *win, struct step *step)
{
	const struct step_path *path = &s->path;
	struct part_rows rows = {0};
	bool is_whole = true;

	*step = (struct step){
		.number = win->number,
		.begin_ns = win->begin_ns,
		.end_ns = win->end_ns,
		.busy_ns = busy_ns(&s->graph, win),
		.blocked_ns = blocked_ns(s, win),
	};
	for (uint32_t i = 0; i < path->cnt && is_whole; i++) {
		const struct step_piece *p = &path->pieces[i];
		uint64_t from = p->begin_ns > win->begin_ns ? p->begin_ns : win->begin_ns;
		uint64_t to = p->end_ns < win->end_ns ? p->end_ns : win->end_ns;

		if (to > from)
			is_whole = add_piece(&rows, &s->graph, p, to - from);
	}
	if (is_whole)
		set_parts(step, &rows, &s->graph);
	free(rows.rows);
	return is_whole;
}

static int by_length(const void *a, const void *b)
{
	const struct step_window *x = a, *y = b;
	uint64_t n = x->end_ns - x->begin_ns, m = y->end_ns - y->begin_ns;

	if (n != m)
		return n > m ? 1 : -1;
	return (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
	const struct step_window *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* Start of the oldest events that are kept. */
static uint64_t kept_from(const struct steps *s)
{
	uint64_t from = 0;

	if (s->calls.is_full)
		from = ((const struct step_call *)s->calls.rows)[s->calls.next].end_ns;
	if (s->execs.is_full &&
	    ((const struct step_exec *)s->execs.rows)[s->execs.next].end_ns > from)
		from = ((const struct step_exec *)s->execs.rows)[s->execs.next].end_ns;
	return from;
}

static struct step_window window_of(const struct report *r, uint64_t i)
{
	struct iter_span it = iter_at(r, i), prev;
	struct step_window win = {it.begin_ns, it.end_ns, i};

	if (i) {
		prev = iter_at(r, i - 1);
		if (prev.round == it.round && prev.end_ns < it.end_ns)
			win.begin_ns = prev.end_ns;
	}
	return win;
}

void step_parts_make(struct steps *s, const struct iter_result *iter)
{
	struct step_window *steady = malloc((iter->count + 1) * sizeof(*steady)), first = {0}, win;
	uint64_t kept_ns = kept_from(s), from_ns = UINT64_MAX, to_ns = 0;
	uint64_t cnt = 0, p95;

	if (!steady)
		return;
	for (uint64_t i = 0; i < iter->count; i++) {
		win = window_of(s->r, i);
		if (win.begin_ns < kept_ns || win.end_ns <= win.begin_ns)
			continue;
		from_ns = win.begin_ns < from_ns ? win.begin_ns : from_ns;
		to_ns = win.end_ns > to_ns ? win.end_ns : to_ns;
		if (!i)
			first = win;
		if (!iter_at(s->r, i).warmup)
			steady[cnt++] = win;
	}
	if (cnt && step_path_make(s, from_ns, to_ns)) {
		qsort(steady, cnt, sizeof(*steady), by_length);
		p95 = (cnt * 95 + 99) / 100 - 1;
		s->res.has_gpu_times = s->graph.exec_cnt;
		s->res.pid = iter->pid;
		s->res.tid = iter->tid;
		s->res.step_cnt = cnt;
		make_step(s, &steady[(cnt - 1) / 2], &s->res.steps[STEP_MEDIAN]);
		make_step(s, &steady[p95], &s->res.steps[STEP_P95]);
		make_step(s, &steady[cnt - 1], &s->res.steps[STEP_SLOWEST]);
		if (first.end_ns)
			make_step(s, &first, &s->res.steps[STEP_FIRST]);
		qsort(steady, cnt, sizeof(*steady), by_number);
		step_what_ifs_make(s, steady, cnt, iter->dist[ITS_GRAPHS].median);
	}
	free(steady);
}
