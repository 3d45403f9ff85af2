/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The nodes of the map as rows, for JSON and the HTML page. */
#include "map_priv.h"

#include <stdio.h>
#include <string.h>

#include "report/gpu/gpu.h"
#include "report/section.h"

static const char *const kinds[MAP_KIND_CNT] = {
	[MAP_ROOT] = "all",	     [MAP_PROCESS] = "process",
	[MAP_STAGE] = "stage",	     [MAP_ITERATIONS] = "iterations",
	[MAP_THREAD] = "thread",     [MAP_RANGE] = "range",
	[MAP_PYTHON] = "python",     [MAP_OPERATOR] = "operator",
	[MAP_BACKWARD] = "backward", [MAP_CALL] = "call",
	[MAP_KERNEL] = "kernel",     [MAP_GRAPH] = "graph",
};

/* The kernels and stacks of the report have full names; here each node repeats its name. */
#define NAME_SHOWN 512

static const char *cut_name(char buf[SECTION_BUF], const char *name)
{
	if (!name || strlen(name) <= NAME_SHOWN)
		return name;
	snprintf(buf, SECTION_BUF, "%.*s...", NAME_SHOWN, name);
	return buf;
}

static const char *function_text(char buf[SECTION_BUF], const struct map_function *f)
{
	const char *slash = strrchr(f->file, '/');

	snprintf(buf, SECTION_BUF, "%.150s (%.90s)", f->name, slash ? slash + 1 : f->file);
	return buf;
}

static double per_of(const struct map_final *f)
{
	return f->per ? f->per : 1;
}

/* The mean of an iteration. */
static const char *mean_text(char buf[SECTION_BUF], uint64_t n, uint64_t per)
{
	double mean = per ? (double)n / per : n;

	if (n && mean < 0.05)
		return "<0.1";
	if (per > 1 && n % per && mean < 1000)
		snprintf(buf, SECTION_BUF, "%.1f", mean);
	else
		human_count(buf, mean + 0.5);
	return buf;
}

static const char *bound_text(char buf[SECTION_BUF], double idle)
{
	bool is_gpu = 1 - idle >= GPU_BOUND_SHARE;

	snprintf(buf, SECTION_BUF, "%s %.0f %%", is_gpu ? "GPU" : "host",
		 100 * (is_gpu ? 1 - idle : idle));
	return buf;
}

/* The first child, or the next node that is not below it. NULL: none. prev NULL: the root. */
static const struct map_final *next_node(const struct map *m, const struct map_final *prev)
{
	uint32_t at;

	if (!prev)
		return m->finals;
	if (prev->first != MAP_NONE)
		return &m->finals[prev->first];
	for (at = prev - m->finals; at && m->finals[at].next == MAP_NONE;)
		at = m->finals[at].parent;
	return at ? &m->finals[m->finals[at].next] : NULL;
}

void map_number(struct map *m)
{
	uint32_t n = 0;

	for (const struct map_final *f = next_node(m, NULL); f; f = next_node(m, f))
		m->finals[f - m->finals].place = n++;
}

#define SECTION_STATE struct map
#define SECTION_ROWS  "report/map/map.section"
#include "report/section_rows.h"
