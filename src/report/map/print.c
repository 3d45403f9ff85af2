/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The map for a terminal, and as folded stacks. */
#include "map_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/page/stacks.h"
#include "report/section.h"
#include "text/kernel_name.h"

#define ROWS_SHORT 24 /* of the section in a report */
#define CHAIN	   4  /* consecutive functions with one child on one line */

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

/* The last node of the chain that begins with f. */
static const struct map_final *chain_end(const struct map *m, const struct map_final *f)
{
	for (unsigned n = 1; n < CHAIN && leads_on(m, f); n++)
		f = &m->finals[f->first];
	return f;
}

const char *map_line_name(const struct map *m, const struct map_line *x, char buf[SECTION_BUF])
{
	const struct map_final *f = x->f, *end;
	int len = 0;

	if (!f) {
		snprintf(buf, SECTION_BUF, "(%u more)", x->left);
		return buf;
	}
	for (end = chain_end(m, f); f != end; f = &m->finals[f->first]) {
		len += row_name(f, buf + len, SECTION_BUF - len);
		len += snprintf(buf + len, SECTION_BUF - len, " > ");
	}
	row_name(f, buf + len, SECTION_BUF - len);
	return buf;
}

/* Rows of text, of up to 1 KB each. */
#define LINES_MAX 50000

static void add_line(struct map_lines *lines, struct map_line x)
{
	struct map_line *of = lines->of;

	if (lines->cnt == LINES_MAX) {
		lines->lost++;
		return;
	}
	if (lines->cnt == lines->cap) {
		of = realloc(of, (2 * lines->cap + 64) * sizeof(*of));
		if (!of) {
			lines->lost++;
			return;
		}
		lines->of = of;
		lines->cap = 2 * lines->cap + 64;
	}
	of[lines->cnt++] = x;
}

/* Adds the children of a node that are shown. shown is NULL: the first of opts.top. */
static void add_children(const struct map *m, struct map_lines *lines, const bool *shown,
			 const struct map_final *of, unsigned depth)
{
	unsigned top = depth ? m->r->opts.top : UINT32_MAX, left = 0;

	for (uint32_t c = of->first; c != MAP_NONE; c = m->finals[c].next) {
		const struct map_final *f = &m->finals[c];

		if (shown ? !shown[c] : !top) {
			left += !shown;
			continue;
		}
		top--;
		add_line(lines, (struct map_line){.f = f, .depth = depth});
		add_children(m, lines, shown, chain_end(m, f), depth + 1);
	}
	if (left)
		add_line(lines, (struct map_line){.left = left, .depth = depth});
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
	if (!n)
		return;
	term_para(term, "%s %s", HUMAN_COUNT(n), what);
}

static void print_notes(const struct map *m, const struct term *term)
{
	note(term, m->cut_frames,
	     "calls were nested deeper than the map: inner functions are missing");
	note(term, m->unnamed_frames, "Python frames have no names and are missing");
	note(term, m->early, "calls and ranges were placed before their context was complete");
	note(term, m->unknown_gpu, "executions have no known call and are missing");
	if (m->divided_ns)
		term_para(
			term,
			"%s of GPU time of whole graphs was divided by the shares of their nodes in other replays",
			HUMAN_TIME(m->divided_ns));
	note(term, m->rejected, "calls or executions exceeded a limit and are missing");
}

void map_print(const void *a, const struct term *term)
{
	const struct map *m = a;
	struct term inner = *term;
	struct map_lines lines = {0};
	bool *shown = NULL;

	if (!m->finals || m->finals[0].first == MAP_NONE)
		return;
	/* The map alone may be piped to less or grep. */
	inner.is_uncut = m->r->opts.map;
	if (!m->r->opts.map) {
		shown = choose(m, ROWS_SHORT);
		if (!shown)
			return;
	}
	term_section(term, "Map", "calls by context; time: from the first to the last call%s",
		     m->r->opts.map ? "" : "; only the heaviest (all: --map)");
	if (m->has_gpu)
		term_para(
			term,
			"bound by: host N %%: the GPU was idle for N %% of the time before this work; GPU: it was busy for "
			"90 %% or more");
	add_children(m, &lines, shown, &m->finals[0], 0);
	section_print(m->r, &map_lines_table, m, &lines, "list", UINT32_MAX, &inner);
	note(term, lines.lost, "more rows, which --format=json has");
	free(lines.of);
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
		flame_root(r, o);
		while (cnt--) {
			flame_frame(o, map_final_name(&m->finals[path[cnt]], buf, sizeof(buf)));
			out_char(o, cnt ? ';' : ' ');
		}
		out_u64(o, weight);
		out_char(o, '\n');
	}
}
