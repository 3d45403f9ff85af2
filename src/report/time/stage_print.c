/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stages as JSON and as text. */
#include "stage_priv.h"

const char *stage_name(enum stage s)
{
	static const char *const names[STAGE_CNT] = {
		[STAGE_INIT] = "init",	   [STAGE_LOAD] = "load",	    [STAGE_INPUT] = "input",
		[STAGE_WARMUP] = "warmup", [STAGE_INFERENCE] = "inference", [STAGE_SYNC] = "sync",
		[STAGE_OUTPUT] = "output", [STAGE_CLEANUP] = "cleanup",	    [STAGE_OTHER] = "other",
	};

	return names[s];
}

static const char *const part_names[PART_CNT] = {
	[PART_LAUNCH] = "launch_ns",   [PART_TRANSFER] = "transfer_ns", [PART_SYNC] = "sync_ns",
	[PART_MEMORY] = "memory_ns",   [PART_MODULE] = "module_ns",	[PART_OTHER] = "other_ns",
	[PART_OUTSIDE] = "outside_ns",
};

double stage_part_share(const struct stage_parts *p, enum stage_part part)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PART_OUTSIDE; i++)
		sum += p->ns[i];
	return ratio_of(p->ns[part], sum);
}

static void put_parts(struct json *j, const struct stage_parts *p)
{
	for (unsigned i = 0; i < PART_CNT; i++)
		json_u64(j, part_names[i], p->ns[i]);
	json_f64(j, "compute_share", stage_part_share(p, PART_LAUNCH));
	json_f64(j, "io_share", stage_part_share(p, PART_TRANSFER));
}

static void put_load(const struct stages *s, struct json *j)
{
	const struct stage_sum *sum = &s->res.stages[STAGE_LOAD];

	json_open(j, "load");
	json_u64(j, "calls", sum->call_cnt);
	json_u64(j, "call_ns", sum->call_ns);
	json_u64(j, "alloc_bytes", sum->alloc_bytes);
	json_u64(j, "htod_bytes", sum->htod_bytes);
	if (sum->last_ns) {
		report_json_ts(s->r, j, "first_ts", sum->first_ns);
		report_json_ts(s->r, j, "last_ts", sum->last_ns);
	}
	json_open_array(j, "by_function");
	for (unsigned i = 0; i < s->load_cnt; i++) {
		json_open(j, NULL);
		json_str(j, "name", s->load[i].name);
		json_u64(j, "count", s->load[i].cnt);
		json_u64(j, "total_ns", s->load[i].total_ns);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

void stages_json(const void *a, struct json *j)
{
	const struct stages *s = a;

	json_open(j, "stages");
	json_open_array(j, "list");
	for (unsigned i = 0; i < STAGE_CNT; i++) {
		const struct stage_sum *sum = &s->res.stages[i];

		if (!sum->call_cnt && !sum->wall_ns)
			continue;
		json_open(j, NULL);
		json_str(j, "stage", stage_name(i));
		report_json_ts(s->r, j, "first_ts", sum->first_ns);
		report_json_ts(s->r, j, "last_ts", sum->last_ns);
		json_u64(j, "wall_ns", sum->wall_ns);
		json_u64(j, "call_ns", sum->call_ns);
		json_u64(j, "calls", sum->call_cnt);
		json_u64(j, "launches", sum->launch_cnt);
		json_u64(j, "bytes", sum->bytes);
		json_f64(j, "share", ratio_of(sum->wall_ns, report_wall_ns(s->r)));
		json_close(j);
	}
	json_close_array(j);
	put_load(s, j);
	json_open(j, "ratio");
	put_parts(j, &s->res.all);
	json_open(j, "steady");
	put_parts(j, &s->res.steady);
	json_close(j);
	json_close(j);
	json_close(j);
}

void stages_print(const void *a, const struct term *term)
{
	static const char *const what[STAGE_CNT] = {
		[STAGE_INIT] = "init",
		[STAGE_LOAD] = "load",
		[STAGE_INPUT] = "input (HtoD)",
		[STAGE_WARMUP] = "warm-up, modules",
		[STAGE_INFERENCE] = "inference",
		[STAGE_SYNC] = "sync",
		[STAGE_OUTPUT] = "output (DtoH)",
		[STAGE_CLEANUP] = "clean-up",
		[STAGE_OTHER] = "before, after",
	};
	const struct stages *s = a;
	char wall[CELL_SZ], outside[CELL_SZ];
	struct table_row *row;
	struct table t;

	if (!s->has_call)
		return;
	human_time(wall, report_wall_ns(s->r));
	human_share(outside, s->res.all.ns[PART_OUTSIDE], report_wall_ns(s->r));
	term_section(term, "Stages", "%s, of which %s in no CUDA call", wall, outside);
	table__init(&t, "wall|share|in calls|calls|launches|bytes|stage");
	for (unsigned i = 0; i < STAGE_CNT; i++) {
		const struct stage_sum *sum = &s->res.stages[i];

		if (!sum->call_cnt && !sum->wall_ns)
			continue;
		row = table__row(&t, what[i]);
		human_time(row->cell[0], sum->wall_ns);
		human_share(row->cell[1], sum->wall_ns, report_wall_ns(s->r));
		human_time(row->cell[2], sum->call_ns);
		human_count(row->cell[3], sum->call_cnt);
		if (sum->launch_cnt)
			human_count(row->cell[4], sum->launch_cnt);
		if (sum->bytes)
			human_bytes(row->cell[5], sum->bytes);
	}
	table__print(&t, term);
}
