/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Options of report, diff and run. */
#include "opts_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/report.h"

void set_format(struct opts *o, const struct opt_row *row, const char *arg)
{
	const char *word = row->words, *at = strstr(word, arg);
	size_t len = strlen(arg);

	if (!len || !at || (at > word && at[-1] != ' ') || (at[len] && at[len] != ' '))
		opts__die("--format '%s': unknown; choose one of: %s", arg, word);
	o->format = arg;
}

void set_top(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t n;

	if (opt_read_u64(arg, &n) || !n || n > 100000)
		opts__die("--top '%s': not a number of rows; give 1 to 100000", arg);
	o->top = n;
}

void set_runs(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t n;

	if (opt_read_u64(arg, &n) || !n || n > RUNS_MAX)
		opts__die("--runs '%s': not a number of runs; give 1 to %d", arg, RUNS_MAX);
	o->runs = n;
}

void set_map(struct opts *o, const struct opt_row *row, const char *arg)
{
	static const char *const words[] = {
		[MAP_BY_WALL] = "wall",		[MAP_BY_HOST] = "host",	  [MAP_BY_GPU] = "gpu",
		[MAP_BY_LAUNCHES] = "launches", [MAP_BY_CALLS] = "calls",
	};

	o->map = arg ? MAP_BY_NONE : MAP_BY_WALL;
	for (unsigned i = 1; arg && i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], arg))
			o->map = i;
	if (!o->map)
		opts__die("--map=%s: unknown; choose one of: %s", arg, row->words);
}

void set_section(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	for (;; arg++) {
		/* kernels.list is a table of the section kernels. */
		size_t len = strcspn(arg, ".,"), all = strcspn(arg, ",");
		uint64_t bit = report_section(arg, len);
		const char *like = report_section_like(arg, len);

		if (!bit)
			opts__die("--section '%.*s': there is no such section; %s%s%s", (int)len,
				  arg, like ? "did you mean " : "--list-sections lists them",
				  like ? like : "", like ? "?" : "");
		o->sections |= bit;
		strv_add(&o->tables, strndup(arg, all));
		arg += all;
		if (!*arg)
			break;
	}
	if (o->sections >> AN_MAP & 1 && !o->map)
		o->map = MAP_BY_WALL;
}

void set_what_if(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	for (;; arg++) {
		size_t len = strcspn(arg, ",");

		if (o->change_cnt == CHANGES_MAX)
			opts__die("--what-if: too many changes; give at most %d", CHANGES_MAX);
		if (!step_change_read(arg, len, &o->changes[o->change_cnt++]))
			opts__die(
				"--what-if '%.*s': not a change; give one like graph, plans, pinned, "
				"overlap-copies, overlap-comm, on-time:RANK, cache:FUNCTION, "
				"drop:FUNCTION, no-wait:FUNCTION, batch:FUNCTION, "
				"before:FUNCTION=0.5, fuse:NAME, kernel:NAME=0.5, graph:RANGE, "
				"gpu=0.5, host=0.5 or untraced",
				(int)len, arg);
		arg += len;
		if (!*arg)
			break;
	}
	o->sections |= report_section("step", 4);
}

void set_list_sections(struct opts *o, const struct opt_row *row, const char *arg)
{
	report_sections_print(stdout);
	exit(0);
}

void set_width(struct opts *o, const struct opt_row *row, const char *arg)
{
	uint64_t n;

	if (opt_read_u64(arg, &n) || n < 40 || n > 1000)
		opts__die("--width '%s': not a number of columns; give 40 to 1000", arg);
	o->width = n;
}

void set_marker(struct opts *o, const struct opt_row *row, const char *arg)
{
	need_text(row, arg);
	o->marker = arg;
	o->iterations = ITER_MARKER;
}

void set_iterations(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (!strcmp(arg, "auto"))
		o->iterations = ITER_AUTO;
	else if (!strcmp(arg, "sync"))
		o->iterations = ITER_SYNC;
	else if (!strcmp(arg, "gap"))
		o->iterations = ITER_GAP;
	else
		opts__die("--iterations '%s': unknown; choose one of: %s", arg, row->words);
	if (o->iterations == ITER_GAP && !o->gap_ns)
		o->gap_ns = OPTS_GAP_DEFAULT;
}

void set_gap(struct opts *o, const struct opt_row *row, const char *arg)
{
	if (opt_read_time(arg, 1000, &o->gap_ns) || !o->gap_ns)
		opts__die("--gap '%s': not a time; give microseconds, or a unit: 500, 2ms", arg);
	o->iterations = ITER_GAP;
}

void set_price(struct opts *o, const struct opt_row *row, const char *arg)
{
	bool is_energy = !strcmp(row->name, "price-per-kwh");
	double *price = is_energy ? &o->kwh_price : &o->gpu_hour_price;
	char *end;

	*price = strtod(arg, &end);
	if (end == arg || *end || !(*price > 0 && *price < 1e9))
		opts__die("--%s '%s': not a price; give a number above 0, as in 0.25", row->name,
			  arg);
}
