/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stages. Each call and each moment belongs to exactly one. The first rule that fits applies:
 *
 *   other      before the first CUDA call (the program starts); after the last iteration, when more
 *              is launched
 *   init       from the first call until the first context has been made. None if that was not
 *              seen (attached late)
 *   cleanup    after the last launch, transfer or wait: frees, unloads, releases
 *   warmup     modules: loading, linking, looking up kernels, at any time
 *   load       until 99 % of the HtoD bytes before the first iteration are copied (before the first
 *              launch if no iterations were found): allocations, copies, their waits, and the
 *              program's own work in between
 *   sync       synchronisations
 *   output     copies DtoH
 *   input      copies HtoD
 *   warmup     everything else before the first non-warm-up iteration
 *   inference  everything else
 *
 * Time in no call belongs to the surrounding stage: init, load, warmup, inference, cleanup, other.
 * A moment in calls of several threads belongs to the call that ends first after it.
 *
 * The rules depend on later calls, so the trace is kept as cells: sums by function, between points
 * where a stage may end (a wait, a module, the first call, context and launch). There are at most
 * STAGE_CELLS: a long trace has its cells joined in pairs, and a boundary may then be off by one
 * part in 500 of its waits. Each process has its own boundaries, found from its own calls
 * (stage_each.c).
 */
#include "stage_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "util/law.h"
#include "report/iter/iter.h"

#define LOADED 0.99

void stages_begin(struct stages *s, struct report *r)
{
	s->r = r;
	s->cell_cnt = 1;
	s->cursor_ns = s->cells[0].begin_ns = r->begin_ns;
}

void stages_clear(struct stages *s)
{
	for (unsigned i = 0; i < STAGE_CELLS; i++)
		memlimit_free(s->cells[i].rows);
	memlimit_free(s->tail.rows);
	memlimit_free(s->gaps);
	memlimit_free(s->load);
}

static struct stage_row *row_get(struct stage_cell *c, const struct api_fn *fn, enum copy_dir dir)
{
	struct stage_row *rows;

	for (unsigned i = 0; i < c->cnt; i++)
		if (c->rows[i].fn == fn && c->rows[i].dir == dir)
			return &c->rows[i];
	rows = grow(c->rows, &c->cap, c->cnt + 1, sizeof(*rows), MEMLIMIT_FUNCTIONS);
	if (!rows)
		return NULL;
	c->rows = rows;
	rows[c->cnt] = (struct stage_row){.fn = fn, .dir = dir, .first_ns = UINT64_MAX};
	return &rows[c->cnt++];
}

static void row_add(struct stage_row *to, const struct stage_row *from)
{
	to->call_cnt += from->call_cnt;
	to->call_ns += from->call_ns;
	to->wall_ns += from->wall_ns;
	to->launch_cnt += from->launch_cnt;
	to->bytes += from->bytes;
	to->first_ns = from->first_ns < to->first_ns ? from->first_ns : to->first_ns;
	to->last_ns = from->last_ns > to->last_ns ? from->last_ns : to->last_ns;
}

static void cell_add(struct stage_cell *to, struct stage_cell *from)
{
	for (unsigned i = 0; i < from->cnt; i++) {
		struct stage_row *row = row_get(to, from->rows[i].fn, from->rows[i].dir);

		if (row)
			row_add(row, &from->rows[i]);
	}
	from->cnt = 0;
}

/* Adds everything since the last work to the open cell. */
static void flush(struct stages *s)
{
	cell_add(&s->cells[s->cell_cnt - 1], &s->tail);
	s->tail.begin_ns = s->cursor_ns;
}

/* The cell of a gap. Call it in the order of gaps; *at is the previous result. */
static struct stage_cell *cell_of_gap(struct stages *s, const struct stage_gap *g, unsigned *at)
{
	while (*at + 1 < s->cell_cnt && s->cells[*at + 1].begin_ns <= g->start_ns)
		++*at;
	return g->start_ns >= s->tail.begin_ns ? &s->tail : &s->cells[*at];
}

/* Halves the number of gaps, roughly: merges pairs within one cell. */
static void merge_gaps(struct stages *s)
{
	const struct stage_cell *before = NULL;
	unsigned n = 0, at = 0;

	for (unsigned i = 0; i < s->gap_cnt; i++) {
		const struct stage_cell *cell = cell_of_gap(s, &s->gaps[i], &at);

		if (cell == before) {
			s->gaps[n - 1].end_ns = s->gaps[i].end_ns;
			s->gaps[n - 1].ns += s->gaps[i].ns;
			before = NULL;
		} else {
			s->gaps[n++] = s->gaps[i];
			before = cell;
		}
	}
	s->gap_cnt = n;
}

static void gap_add(struct stages *s, uint64_t start_ns, uint64_t end_ns)
{
	struct stage_gap *gaps;

	if (s->gap_cnt == STAGE_GAPS)
		merge_gaps(s);
	gaps = grow(s->gaps, &s->gap_cap, s->gap_cnt + 1, sizeof(*gaps), MEMLIMIT_FUNCTIONS);
	if (!gaps)
		return;
	s->gaps = gaps;
	gaps[s->gap_cnt++] = (struct stage_gap){start_ns, end_ns, end_ns - start_ns};
}

/* Removes that time from the gaps. Calls come in the order of their ends, so most of these gaps are
 * the last ones. */
static uint64_t gaps_take(struct stages *s, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t sum = 0;

	for (unsigned i = s->gap_cnt; i && s->gaps[i - 1].end_ns > start_ns; i--) {
		struct stage_gap *g = &s->gaps[i - 1];
		uint64_t from = g->start_ns > start_ns ? g->start_ns : start_ns;
		uint64_t to = g->end_ns < end_ns ? g->end_ns : end_ns;
		uint64_t ns;

		if (to <= from)
			continue;
		ns = (double)g->ns * (to - from) / (g->end_ns - g->start_ns);
		g->ns -= ns;
		sum += ns;
		/* If the piece is in the middle, its position is not kept. */
		if (to == g->end_ns)
			g->end_ns = from;
		else if (from == g->start_ns)
			g->start_ns = to;
	}
	while (s->gap_cnt && !s->gaps[s->gap_cnt - 1].ns)
		s->gap_cnt--;
	return sum;
}

/* Adds the remaining gaps to their cells. */
static void give_gaps(struct stages *s)
{
	unsigned at = 0;

	for (unsigned i = 0; i < s->gap_cnt; i++)
		cell_of_gap(s, &s->gaps[i], &at)->outside_ns += s->gaps[i].ns;
}

/* Joins cells in pairs, except across known boundaries. */
static void halve(struct stages *s)
{
	unsigned n = 0;

	for (unsigned i = 1; i < s->cell_cnt; i++) {
		struct stage_cell *c = &s->cells[i], old;

		if (!c->keep && (i & 1)) {
			cell_add(&s->cells[n], c);
			s->cells[n].end_ns = c->end_ns;
		} else if (++n != i) {
			old = s->cells[n];
			s->cells[n] = *c;
			*c = (struct stage_cell){.rows = old.rows, .cap = old.cap};
		}
	}
	s->cell_cnt = n + 1;
}

static void cut(struct stages *s, bool keep)
{
	struct stage_cell *c;

	flush(s);
	if (s->cell_cnt == STAGE_CELLS)
		halve(s);
	s->cells[s->cell_cnt - 1].end_ns = s->cursor_ns;
	c = &s->cells[s->cell_cnt++];
	c->begin_ns = s->cursor_ns;
	c->keep = keep;
}

/* Bytes copied, or allocated on a GPU; for an array they are an estimate. */
static uint64_t bytes_of(const struct trace_event *ev)
{
	enum block_kind kind;
	bool made = call_makes(ev, &kind) > 0 && kind != BLOCK_ARRAY;
	enum mem_kind counted = block_desc[kind].counted;

	if (ev->type != TYPE_TRANSFER &&
	    !(made && (counted == MEM_DEVICE || counted == MEM_MANAGED)))
		return 0;
	return (ev->has & HAS_SIZE) && call_ran(ev) ? ev->size : 0;
}

static void add(struct stages *s, const struct trace_event *ev)
{
	struct stage_row *row = row_get(&s->tail, ev->fn, ev->dir);

	if (!row)
		return;
	row->call_cnt++;
	if (ev->start_ns < row->first_ns)
		row->first_ns = ev->start_ns;
	if (!call_took_time(ev))
		return;
	if (ev->end_ns > row->last_ns)
		row->last_ns = ev->end_ns;
	if (!ev->unfinished) {
		row->bytes += bytes_of(ev);
		row->launch_cnt += call_launches_any(ev);
	}
	if (!call_is_top(ev))
		return;
	row->call_ns += event_duration_ns(ev);
	row->wall_ns += gaps_take(s, ev->start_ns, ev->end_ns);
	if (ev->end_ns > s->cursor_ns) {
		row->wall_ns += ev->end_ns - s->cursor_ns;
		s->cursor_ns = ev->end_ns;
	}
}

static bool makes_context(const struct trace_event *ev)
{
	return ev->fn->class == CLASS_CONTEXT && !ev->is_error &&
	       (ev->fn->op == OP_RETAIN || ev->fn->op == OP_CREATE);
}

void stages_add(struct stages *s, const struct trace_event *ev)
{
	bool launches;

	if (!call_is_top(ev) || !call_took_time(ev)) {
		add(s, ev);
		return;
	}
	if (!s->has_call && s->r->begin_ns < s->cursor_ns)
		s->cursor_ns = s->cells[0].begin_ns = s->r->begin_ns;
	if (ev->start_ns > s->cursor_ns) {
		gap_add(s, s->cursor_ns, ev->start_ns);
		s->cursor_ns = ev->start_ns;
	}
	launches = call_launches_any(ev) && !ev->unfinished;
	if (!s->has_call || (launches && !s->has_launch))
		cut(s, true);
	s->has_call = true;
	if (launches && !s->has_launch)
		s->launch_ns = s->cursor_ns;
	s->has_launch |= launches;
	add(s, ev);
	if (makes_context(ev) && !s->context_ns) {
		cut(s, true);
		s->context_ns = s->cursor_ns;
	} else if (call_blocks(ev) || (ev->fn->class == CLASS_MODULE && ev->fn->op == OP_LOAD)) {
		cut(s, false);
	} else if (call_submits(ev)) {
		flush(s);
	}
}

/* End of the stage load. */
static uint64_t load_end(const struct stages *s, const struct iter_result *iter)
{
	uint64_t sum = 0, part = 0, until = iter->count ? iter->first_ns : s->launch_ns, end;
	unsigned n, i;

	for (n = 0; n < s->cell_cnt && s->cells[n].end_ns <= until; n++)
		for (i = 0; i < s->cells[n].cnt; i++)
			if (s->cells[n].rows[i].dir == COPY_DIR_HTOD)
				sum += s->cells[n].rows[i].bytes;
	end = s->context_ns;
	for (unsigned c = 0; c < n && sum && part < LOADED * sum; c++) {
		for (i = 0; i < s->cells[c].cnt; i++)
			if (s->cells[c].rows[i].dir == COPY_DIR_HTOD)
				part += s->cells[c].rows[i].bytes;
		end = s->cells[c].end_ns;
	}
	return end;
}

static enum phase phase_of(const struct stages *s, unsigned cell, uint64_t loaded_ns,
			   const struct iter_result *iter)
{
	const struct stage_cell *c = &s->cells[cell];

	if (!cell)
		return PHASE_BEFORE;
	if (c->begin_ns < s->context_ns)
		return PHASE_INIT;
	if (c->begin_ns < loaded_ns)
		return PHASE_LOAD;
	if (!iter->count)
		return PHASE_RUN;
	if (c->end_ns <= iter->steady_ns)
		return PHASE_WARMUP;
	return c->begin_ns < iter->last_ns ? PHASE_RUN : PHASE_AFTER;
}

static enum stage stage_of_time(enum phase p)
{
	static const enum stage stages[] = {
		[PHASE_BEFORE] = STAGE_OTHER,  [PHASE_INIT] = STAGE_INIT,
		[PHASE_LOAD] = STAGE_LOAD,     [PHASE_WARMUP] = STAGE_WARMUP,
		[PHASE_RUN] = STAGE_INFERENCE, [PHASE_AFTER] = STAGE_OTHER,
		[PHASE_END] = STAGE_CLEANUP,
	};

	return stages[p];
}

static enum stage stage_of(enum phase p, const struct stage_row *row)
{
	if (p == PHASE_BEFORE || p == PHASE_INIT || p == PHASE_END)
		return stage_of_time(p);
	if (row->fn->class == CLASS_MODULE && row->fn->op != OP_UNLOAD)
		return STAGE_WARMUP;
	if (p == PHASE_LOAD)
		return STAGE_LOAD;
	if (row->fn->op == OP_SYNC)
		return STAGE_SYNC;
	if (row->dir == COPY_DIR_DTOH)
		return STAGE_OUTPUT;
	if (row->dir == COPY_DIR_HTOD)
		return STAGE_INPUT;
	return stage_of_time(p);
}

static enum stage_part part_of(const struct stage_row *row)
{
	if (row->fn->class == CLASS_LAUNCH || row->fn->op == OP_GRAPH_LAUNCH)
		return PART_LAUNCH;
	switch (row->fn->class) {
	case CLASS_TRANSFER:
		return PART_TRANSFER;
	case CLASS_SYNC:
		return PART_SYNC;
	case CLASS_MEMORY:
		return PART_MEMORY;
	case CLASS_MODULE:
		return PART_MODULE;
	default:
		return PART_OTHER;
	}
}

static void add_load_fn(struct stages *s, const struct stage_row *row)
{
	struct stage_fn *fns;
	unsigned i = 0;

	while (i < s->load_cnt && strcmp(s->load[i].name, row->fn->name))
		i++;
	if (i == s->load_cnt) {
		fns = grow(s->load, &s->load_cap, i + 1, sizeof(*fns), MEMLIMIT_FUNCTIONS);
		if (!fns)
			return;
		s->load = fns;
		s->load_cnt++;
		fns[i].name = row->fn->name;
	}
	s->load[i].cnt += row->call_cnt;
	s->load[i].total_ns += row->call_ns;
}

static void span(struct stage_sum *sum, uint64_t first, uint64_t last)
{
	sum->first_ns = !sum->last_ns || first < sum->first_ns ? first : sum->first_ns;
	sum->last_ns = last > sum->last_ns ? last : sum->last_ns;
}

static void span_run(struct stages *s, const struct stage_cell *c)
{
	if (!s->res.run_to_ns)
		s->res.run_from_ns = c->begin_ns;
	s->res.run_to_ns = c->end_ns;
}

static void give(struct stages *s, const struct stage_cell *c, enum phase phase)
{
	struct stage_sum *sum = &s->res.stages[stage_of_time(phase)];
	struct stage_parts *steady = phase == PHASE_RUN ? &s->res.steady : NULL;

	/* The stages of a process begin at its first call. */
	if (s->pid && phase == PHASE_BEFORE)
		return;
	if (c->outside_ns)
		span(sum, c->begin_ns, c->end_ns);
	sum->wall_ns += c->outside_ns;
	s->res.phase_ns[phase] += c->outside_ns;
	s->res.all.ns[PART_OUTSIDE] += c->outside_ns;
	if (steady) {
		steady->ns[PART_OUTSIDE] += c->outside_ns;
		span_run(s, c);
	}
	for (unsigned i = 0; i < c->cnt; i++) {
		const struct stage_row *row = &c->rows[i];
		enum stage stage = stage_of(phase, row);

		sum = &s->res.stages[stage];
		if (row->last_ns)
			span(sum, row->first_ns, row->last_ns);
		sum->wall_ns += row->wall_ns;
		sum->call_ns += row->call_ns;
		sum->call_cnt += row->call_cnt;
		sum->launch_cnt += row->launch_cnt;
		if (row->fn->class == CLASS_TRANSFER)
			sum->bytes += row->bytes;
		else
			sum->alloc_bytes += row->bytes;
		sum->htod_bytes += row->dir == COPY_DIR_HTOD ? row->bytes : 0;
		s->res.phase_ns[phase] += row->wall_ns;
		s->res.phase_call_ns[phase] += row->wall_ns;
		s->res.all.ns[part_of(row)] += row->wall_ns;
		if (steady)
			steady->ns[part_of(row)] += row->wall_ns;
		if (steady && row->fn->class == CLASS_TRANSFER)
			s->res.run_bytes += row->bytes;
		if (stage == STAGE_LOAD && !s->pid)
			add_load_fn(s, row);
	}
}

static int fn_by_time(const void *a, const void *b)
{
	const struct stage_fn *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

void stages_end(struct stages *s, const struct iter_result *iter)
{
	uint64_t loaded_ns, tail_ns = s->cursor_ns, parts_ns = 0, stages_ns = 0;

	for (unsigned i = 0; i < s->tail.cnt; i++)
		if (s->tail.rows[i].first_ns < tail_ns)
			tail_ns = s->tail.rows[i].first_ns;
	if (!s->pid && s->r->last_ns > s->cursor_ns) {
		gap_add(s, s->cursor_ns, s->r->last_ns);
		s->cursor_ns = s->r->last_ns;
	}
	give_gaps(s);
	s->cells[s->cell_cnt - 1].end_ns = s->tail.begin_ns = tail_ns;
	s->tail.end_ns = s->cursor_ns;
	if (!s->has_launch)
		s->launch_ns = s->cursor_ns;
	s->loaded_ns = loaded_ns = load_end(s, iter);
	for (unsigned i = 0; i < s->cell_cnt; i++)
		give(s, &s->cells[i], phase_of(s, i, loaded_ns, iter));
	give(s, &s->tail, s->has_call ? PHASE_END : PHASE_BEFORE);
	if (iter->count) {
		s->res.run_from_ns = iter->steady_ns;
		s->res.run_to_ns = iter->last_ns;
	}
	for (unsigned i = 0; i < PART_CNT; i++)
		parts_ns += s->res.all.ns[i];
	for (unsigned i = 0; i < STAGE_CNT; i++)
		stages_ns += s->res.stages[i].wall_ns;
	law(parts_ns == stages_ns && parts_ns <= report_wall_ns(s->r));
	if (s->load_cnt)
		qsort(s->load, s->load_cnt, sizeof(*s->load), fn_by_time);
}

enum stage stage_of_moment(const struct report *r, uint64_t ns)
{
	const struct stages *s = r->an[AN_STAGE];
	struct iter_result iter;
	unsigned lo = 0, hi, middle;

	if (!s->has_call)
		return STAGE_OTHER;
	if (ns >= s->tail.begin_ns)
		return STAGE_CLEANUP;
	/* the last that begins before it */
	for (hi = s->cell_cnt; hi - lo > 1;) {
		middle = (lo + hi) / 2;
		if (s->cells[middle].begin_ns <= ns)
			lo = middle;
		else
			hi = middle;
	}
	iter_result(r, &iter);
	return stage_of_time(phase_of(s, lo, s->loaded_ns, &iter));
}
