/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cuts the critical path at the steps. A step lasts from the end of the iteration before it to the
 * end of its own, so the host's work between iterations belongs to it. */
#include "step_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/kernels/graphs.h"
#include "report/layers/communication.h"
#include "report/map/map.h"
#include "util/order.h"

#define LOOK_AHEAD 1024 /* calls */

/* A piece of the path in a step; then all of its kind and name. */
struct part_row {
	const char *name;
	uint64_t ns, cnt;
	uint32_t place; /* call of the longest piece; STEP_NONE: none */
	uint32_t exec;	/* its execution; STEP_NONE: none */
	uint8_t kind;
};

/* Where a call was made: by its own stack, or by that of the next launch of the same operator. */
static const struct step_call *with_stack(const struct step_graph *g, uint32_t call)
{
	const struct step_call *c = &g->calls[call];

	if (c->stack || !c->operator_id)
		return c->stack ? c : NULL;
	for (uint32_t i = call; i < g->call_cnt && i - call <= LOOK_AHEAD; i++) {
		const struct step_call *n = &g->calls[i];

		if (n->tid == c->tid && n->stack && n->operator_id == c->operator_id)
			return n;
	}
	return NULL;
}

const struct stack_frame *step_frame_in(const struct stack *stack)
{
	const struct stack_frame *first = NULL;

	for (unsigned i = 0; stack && i < stack->frame_cnt; i++) {
		const struct stack_frame *f = &stack->frames[i];

		if (!f->python || !f->symbol)
			continue;
		if (!map_is_noise(f))
			return f;
		first = first ? first : f;
	}
	return first;
}

const struct stack_frame *step_python_frame(const struct step_graph *g, uint32_t call)
{
	const struct step_call *c = call == STEP_NONE ? NULL : with_stack(g, call);

	return c ? step_frame_in(c->stack) : NULL;
}

/* The call that captured a node of a graph; NULL: not known, or it is not such a node. */
static const struct graph_captured *captured_of(const struct steps *s, uint32_t exec)
{
	const struct graph_executed *x =
		exec == STEP_NONE ? NULL : graphs_executed(s->r, s->graph.execs[exec].graph_row);

	return x ? graphs_captured(s->r, x->captured) : NULL;
}

static bool is_execution(const struct step_piece *p)
{
	return p->exec != STEP_NONE && p->kind != STEP_LATENCY && p->kind != STEP_GAP &&
	       p->kind != STEP_RANK;
}

/* "rank 3", or "process 4242" if it has no known rank. */
static const char *rank_name(struct steps *s, uint32_t pid)
{
	struct step_rank *k = s->ranks;
	uint32_t rank;

	while (k < s->ranks + s->rank_cnt && k->pid != pid)
		k++;
	if (k < s->ranks + s->rank_cnt)
		return k->name;
	if (s->rank_cnt == STEP_RANKS)
		return NULL;
	s->rank_cnt++;
	k->pid = pid;
	if (communication_rank(s->r, pid, &rank))
		snprintf(k->name, sizeof(k->name), "rank %u", rank);
	else
		snprintf(k->name, sizeof(k->name), "process %u", pid);
	return k->name;
}

static const char *name_of(struct steps *s, const struct step_piece *p)
{
	const struct step_graph *g = &s->graph;
	const struct stack_frame *f;

	if (p->kind == STEP_RANK)
		return rank_name(s, p->late_pid);
	if (is_execution(p))
		return g->execs[p->exec].kernel;
	if (p->kind == STEP_BETWEEN) {
		f = step_python_frame(g, p->call);
		return f ? f->symbol : NULL;
	}
	return p->call != STEP_NONE && p->exec == STEP_NONE ? g->calls[p->call].fn->name : NULL;
}

/* Rows to merge are neighbours, the longest piece first. */
static int by_part(const void *a, const void *b)
{
	const struct part_row *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind - y->kind;
	if (x->name != y->name)
		return (uintptr_t)x->name > (uintptr_t)y->name ? 1 : -1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return ASCENDING(x->place, y->place);
}

/* Returns how many rows are left. */
static uint32_t merge(struct part_row *rows, uint32_t cnt)
{
	uint32_t to = 0;

	qsort(rows, cnt, sizeof(*rows), by_part);
	for (uint32_t i = 1; i < cnt; i++) {
		if (rows[i].kind != rows[to].kind || rows[i].name != rows[to].name) {
			rows[++to] = rows[i];
			continue;
		}
		rows[to].ns += rows[i].ns;
		rows[to].cnt++;
	}
	return cnt ? to + 1 : 0;
}

static int by_time(const void *a, const void *b)
{
	const struct part_row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (!x->name || !y->name)
		return !x->name - !y->name;
	return strcmp(x->name, y->name);
}

/* The execution of a graph's node belongs to the place that captured the node. */
static void set_place(struct step_part *part, const struct part_row *row, const struct steps *s)
{
	const struct graph_captured *c = captured_of(s, row->exec);

	if (row->place == STEP_NONE)
		return;
	part->call_id = s->graph.calls[row->place].id;
	part->fn = s->graph.calls[row->place].fn;
	part->operator= c ? c->operator: s->graph.calls[row->place].operator;
	part->frame = c ? step_frame_in(c->stack) : step_python_frame(&s->graph, row->place);
}

static void set_parts(struct step *step, struct part_row *rows, uint32_t cnt, const struct steps *s)
{
	unsigned shown = cnt > STEP_PARTS ? STEP_PARTS - 1 : cnt;
	struct step_part *rest = &step->parts[STEP_PARTS - 1];

	qsort(rows, cnt, sizeof(*rows), by_time);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct part_row *row = &rows[i];
		struct step_part *part;

		if (i >= shown) {
			rest->kind = STEP_REST;
			rest->ns += row->ns;
			rest->cnt += row->cnt;
			continue;
		}
		part = &step->parts[i];
		part->kind = row->kind;
		part->name = row->name;
		part->ns = row->ns;
		part->cnt = row->cnt;
		set_place(part, row, s);
	}
	step->part_cnt = shown + (cnt > shown);
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

static void make_step(struct steps *s, const struct step_window *win, struct step *step)
{
	const struct step_path *path = &s->path;
	struct part_row *rows = malloc((path->cnt + 1) * sizeof(*rows));
	uint32_t cnt = 0;

	*step = (struct step){
		.number = win->number,
		.begin_ns = win->begin_ns,
		.end_ns = win->end_ns,
		.busy_ns = busy_ns(&s->graph, win),
		.blocked_ns = blocked_ns(s, win),
	};
	for (uint32_t i = 0; i < path->cnt && rows; i++) {
		const struct step_piece *p = &path->pieces[i];
		uint64_t from = p->begin_ns > win->begin_ns ? p->begin_ns : win->begin_ns;
		uint64_t to = p->end_ns < win->end_ns ? p->end_ns : win->end_ns;

		if (to > from)
			rows[cnt++] =
				(struct part_row){.kind = p->kind,
						  .name = name_of(s, p),
						  .ns = to - from,
						  .cnt = 1,
						  .place = p->call,
						  .exec = is_execution(p) ? p->exec : STEP_NONE};
	}
	if (rows)
		set_parts(step, rows, merge(rows, cnt), s);
	free(rows);
}

static int by_length(const void *a, const void *b)
{
	const struct step_window *x = a, *y = b;
	uint64_t n = x->end_ns - x->begin_ns, m = y->end_ns - y->begin_ns;

	return ASCENDING(n, m) ?: ASCENDING(x->number, y->number);
}

static int by_number(const void *a, const void *b)
{
	const struct step_window *x = a, *y = b;

	return ASCENDING(x->number, y->number);
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
		step_gaps_make(s, steady, cnt);
		step_path_examples(s, steady, cnt);
		step_what_ifs_make(s, steady, cnt, iter->dist[ITS_GRAPHS].median);
	}
	free(steady);
}
