/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The map for a terminal, and as folded stacks. */
#include "map_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/page/stacks.h"
#include "report/gpu/gpu.h"
#include "report/section.h"
#include "text/kernel_name.h"
#include "text/table.h"

#define ROWS_SHORT     24 /* of the section in a report */
#define COLS	       6
#define COL_WIDTH      11
#define CHAIN	       4 /* consecutive functions with one child on one line */
#define NAME_MAX_WIDTH 400

const char *map_final_name(const struct map_final *f, char *buf, size_t size)
{
	const char *name = f->name ?: "(name unknown)";

	switch (f->kind) {
	case MAP_PROCESS:
		snprintf(buf, size, "process %" PRIu32, f->number);
		return buf;
	case MAP_ITERATIONS:
		snprintf(buf, size, "%s: %" PRIu64 ", of each", name, f->per);
		return buf;
	case MAP_THREAD:
		snprintf(buf, size, "thread %s", name);
		return buf;
	case MAP_RANGE:
		snprintf(buf, size, "[%s]", f->name ?: "range without a name");
		return buf;
	case MAP_BACKWARD:
		snprintf(buf, size, "backward: %.200s", name);
		return buf;
	case MAP_PYTHON:
		if (!f->is_numbered)
			return name;
		snprintf(buf, size, "%.200s #%" PRIu32 "%s", name, f->number - 1,
			 f->number > MAP_PASSES ? " and later" : "");
		return buf;
	default:
		return name;
	}
}

/* --- text --- */

static void mean_of(char cell[CELL_SZ], uint64_t n, uint64_t per)
{
	double mean = per ? (double)n / per : n;

	if (n && mean < 0.05)
		strcpy(cell, "<0.1");
	else if (per > 1 && n % per && mean < 1000)
		snprintf(cell, CELL_SZ, "%.1f", mean);
	else
		human_count(cell, mean + 0.5);
}

/* in the order of the columns */
enum { COL_CALLS, COL_LAUNCHES, COL_TIME, COL_HOST, COL_GPU, COL_BOUND };

struct print_ctx {
	const struct map *m;
	const struct term *term;
	const bool *shown; /* NULL: all within top */
	unsigned top, indent;
	bool has_col[COLS];
};

static void put_cells(const struct map_final *f, char cell[COLS][CELL_SZ])
{
	const struct map_sums *s = &f->sums;
	double idle = map_idle_share(s), per = f->per ? f->per : 1;
	bool gpu_bound = 1 - idle >= GPU_BOUND_SHARE;

	memset(cell, 0, COLS * CELL_SZ);
	mean_of(cell[COL_CALLS], s->calls, f->per);
	mean_of(cell[COL_LAUNCHES], s->launches, f->per);
	human_time(cell[COL_TIME], map_wall(s) / per);
	human_time(cell[COL_HOST], s->host_ns / per);
	if (s->gpu_cnt)
		human_time(cell[COL_GPU], s->gpu_ns / per);
	if (idle >= 0)
		snprintf(cell[COL_BOUND], CELL_SZ, "%s %.0f %%", gpu_bound ? "GPU" : "host",
			 100 * (gpu_bound ? 1 - idle : idle));
}

static void put_row(const struct print_ctx *p, char cell[COLS][CELL_SZ], const char *name,
		    unsigned depth)
{
	int indent = p->indent * depth, used = 2;

	/* A deep node still needs space for its name. */
	if (indent > p->term->width / 3)
		indent = p->term->width / 3;
	putc(' ', p->term->f);
	for (unsigned i = 0; i < COLS; i++) {
		if (!p->has_col[i])
			continue;
		fprintf(p->term->f, "%*s%s", COL_WIDTH - term_columns(cell[i], strlen(cell[i])), "",
			cell[i]);
		used += COL_WIDTH;
	}
	fprintf(p->term->f, "  %*s", indent, "");
	/* The map alone is also for less and grep. */
	term_name(p->term, name, p->shown ? p->term->width - used - indent - 1 : NAME_MAX_WIDTH);
	putc('\n', p->term->f);
}

/* A function, range or operator whose only child is of the same kind. */
static bool leads_on(const struct map *m, const struct map_final *f)
{
	return (f->kind == MAP_PYTHON || f->kind == MAP_OPERATOR) && f->cnt == 1 &&
	       !f->self.calls && m->finals[f->first].kind == f->kind && !f->is_numbered;
}

/* Kernel names are shortened. */
static int row_name(const struct map_final *f, char *buf, size_t size)
{
	char name[256];
	size_t len;
	const char *s;

	if (f->kind != MAP_KERNEL || !f->name)
		return snprintf(buf, size, "%.250s", map_final_name(f, name, sizeof(name)));
	s = kernel_short_name(f->name, &len);
	return snprintf(buf, size, "%.*s", (int)(len < 250 ? len : 250), s);
}

static void print_node(const struct print_ctx *p, uint32_t node, unsigned depth)
{
	const struct map *m = p->m;
	const struct map_final *f = &m->finals[node];
	char cell[COLS][CELL_SZ], name[2048];
	unsigned cnt = 0, len = 0, left = 0;

	put_cells(f, cell);
	for (unsigned n = 1; n < CHAIN && leads_on(m, f); n++) {
		len += row_name(f, name + len, sizeof(name) - len);
		len += snprintf(name + len, sizeof(name) - len, " > ");
		f = &m->finals[f->first];
	}
	row_name(f, name + len, sizeof(name) - len);
	put_row(p, cell, name, depth);
	for (uint32_t c = f->first; c != MAP_NONE; c = m->finals[c].next) {
		if (p->shown ? p->shown[c] : cnt++ < p->top)
			print_node(p, c, depth + 1);
		else
			left += !p->shown;
	}
	if (!left)
		return;
	memset(cell, 0, sizeof(cell));
	snprintf(name, sizeof(name), "(%u more)", left);
	put_row(p, cell, name, depth + 1);
}

/* Marks up to rows nodes to show: the heaviest below shown ones. */
static bool *choose(const struct map *m, unsigned rows)
{
	bool *shown = calloc(m->final_keys.cnt + 1, sizeof(*shown));
	uint32_t *edge = calloc(m->final_keys.cnt + 1, sizeof(*edge)), cnt = 0;

	if (!shown || !edge) {
		free(shown);
		free(edge);
		return NULL;
	}
	edge[cnt++] = m->finals[0].first;
	/* the first of each list is its heaviest */
	while (rows && cnt) {
		unsigned best = 0;
		uint32_t node;

		for (unsigned i = 0; i < cnt; i++)
			if (edge[i] == MAP_NONE)
				edge[i--] = edge[--cnt];
			else if (map_weight(m, &m->finals[edge[i]].sums) >
				 map_weight(m, &m->finals[edge[best]].sums))
				best = i;
		if (!cnt)
			break;
		best = best < cnt ? best : 0;
		node = edge[best];
		shown[node] = true;
		edge[best] = m->finals[node].next;
		for (unsigned n = 1; n < CHAIN && leads_on(m, &m->finals[node]); n++)
			shown[node = m->finals[node].first] = true;
		edge[cnt++] = m->finals[node].first;
		rows--;
	}
	free(edge);
	return shown;
}

static void print_functions(const struct map *m, const struct term *term)
{
	if (!m->functions)
		return;
	term_section(
		term, "Python functions",
		"%" PRIu32
		", by time from the first to the last call; self: excluding functions that they call",
		m->function_keys.cnt);
	section_print(m->r, &map_table, m, m, "functions", 0, term);
}

static void note(const struct term *term, uint64_t n, const char *what)
{
	char cnt[CELL_SZ];

	if (!n)
		return;
	human_count(cnt, n);
	term_para(term, "%s %s", cnt, what);
}

static void print_notes(const struct map *m, const struct term *term)
{
	note(term, m->cut_frames,
	     "calls were nested deeper than the map: inner functions are missing");
	note(term, m->unnamed_frames, "Python frames have no names and are missing");
	note(term, m->early, "calls and ranges were placed before their context was complete");
	note(term, m->unknown_gpu, "executions have no known call and are missing");
	note(term, m->rejected, "calls or executions exceeded a limit and are missing");
}

void map_print(const void *a, const struct term *term)
{
	const struct map *m = a;
	char heads[COLS][CELL_SZ] = {"calls", "launches", "time", "in calls", "GPU", "bound by"};
	bool wide = term->width >= 100;
	struct print_ctx p = {
		.m = m,
		.term = term,
		.top = m->r->opts.top,
		.indent = wide ? 2 : 1,
		.has_col = {wide, true, true, wide || !m->has_gpu, m->has_gpu, m->has_gpu},
	};
	bool *shown = NULL;

	if (!m->finals || m->finals[0].first == MAP_NONE)
		return;
	if (!m->r->opts.map) {
		shown = choose(m, ROWS_SHORT);
		if (!shown)
			return;
		p.shown = shown;
	}
	term_section(term, "Map", "calls by context; time: from the first to the last call%s",
		     m->r->opts.map ? "" : "; only the heaviest (all: --map)");
	if (m->has_gpu)
		term_para(
			term,
			"bound by: host N %%: the GPU was idle for N %% of the time before this work; GPU: it was busy for "
			"90 %% or more");
	put_row(&p, heads, "", 0);
	for (uint32_t c = m->finals[0].first; c != MAP_NONE; c = m->finals[c].next)
		if (!shown || shown[c])
			print_node(&p, c, 0);
	free(shown);
	print_notes(m, term);
	print_functions(m, term);
}

/* --- folded stacks --- */

void map_fold(const struct report *r, struct out *o)
{
	const struct map *m = r->an[AN_MAP];
	uint32_t path[16 * MAP_DEPTH];
	char buf[256];

	for (uint32_t i = 1; m && i < m->final_keys.cnt; i++) {
		uint64_t weight = map_weight(m, &m->finals[i].self);
		unsigned cnt = 0;

		if (!weight)
			continue;
		for (uint32_t n = i; n && cnt < 16 * MAP_DEPTH; n = m->finals[n].parent)
			path[cnt++] = n;
		while (cnt--) {
			flame_frame(o, map_final_name(&m->finals[path[cnt]], buf, sizeof(buf)));
			out_char(o, cnt ? ';' : ' ');
		}
		out_u64(o, weight);
		out_char(o, '\n');
	}
}
