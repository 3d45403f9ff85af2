/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keeps the trace as cells: sums by function between points where a stage may end. */
#include "stage_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "util/law.h"

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

/* Calls come in the order of their ends, so most of these gaps are the last ones. */
uint64_t stage_gaps_take(struct stage_gap *gaps, unsigned *cnt, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t sum = 0;

	for (unsigned i = *cnt; i && gaps[i - 1].end_ns > start_ns; i--) {
		struct stage_gap *g = &gaps[i - 1];
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
	while (*cnt && !gaps[*cnt - 1].ns)
		--*cnt;
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
	row->wall_ns += stage_gaps_take(s->gaps, &s->gap_cnt, ev->start_ns, ev->end_ns);
	if (ev->end_ns > s->cursor_ns) {
		row->wall_ns += ev->end_ns - s->cursor_ns;
		s->cursor_ns = ev->end_ns;
	}
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
	if (call_makes_context(ev) && !s->context_ns) {
		cut(s, true);
		s->context_ns = s->cursor_ns;
	} else if (call_blocks(ev) || (ev->fn->class == CLASS_MODULE && ev->fn->op == OP_LOAD)) {
		cut(s, false);
	} else if (call_submits(ev)) {
		flush(s);
	}
}

void stages_close(struct stages *s)
{
	uint64_t tail_ns = s->cursor_ns;

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
}
