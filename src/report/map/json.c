/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "map_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/gpu/gpu.h"

static const char *const kinds[MAP_KIND_CNT] = {
	[MAP_ROOT] = "all",	     [MAP_PROCESS] = "process",
	[MAP_STAGE] = "stage",	     [MAP_ITERATIONS] = "iterations",
	[MAP_THREAD] = "thread",     [MAP_RANGE] = "range",
	[MAP_PYTHON] = "python",     [MAP_OPERATOR] = "operator",
	[MAP_BACKWARD] = "backward", [MAP_CALL] = "call",
	[MAP_KERNEL] = "kernel",
};

static void put_sums(struct json *j, const struct map_sums *s)
{
	json_u64(j, "calls", s->calls);
	json_u64(j, "launches", s->launches);
	json_u64(j, "host_ns", s->host_ns);
	json_u64(j, "wall_ns", map_wall(s));
	if (s->bytes)
		json_u64(j, "bytes", s->bytes);
	if (s->flops)
		json_u64(j, "flops", s->flops);
	if (s->unfinished)
		json_u64(j, "unfinished", s->unfinished);
	if (!s->gpu_cnt)
		return;
	json_u64(j, "gpu_executions", s->gpu_cnt);
	json_u64(j, "gpu_ns", s->gpu_ns);
	json_u64(j, "gpu_busy_ns", s->busy_ns);
	json_u64(j, "gpu_idle_ns", s->idle_ns);
}

static void put_mean(struct json *j, const struct map_final *f)
{
	double per = f->per;

	if (!f->per)
		return;
	json_open(j, "per_iteration");
	json_f64(j, "calls", f->sums.calls / per);
	json_f64(j, "launches", f->sums.launches / per);
	json_f64(j, "host_ns", f->sums.host_ns / per);
	json_f64(j, "wall_ns", map_wall(&f->sums) / per);
	if (f->sums.gpu_cnt)
		json_f64(j, "gpu_ns", f->sums.gpu_ns / per);
	if (f->sums.flops)
		json_f64(j, "flops", f->sums.flops / per);
	json_close(j);
}

/* The kernels and stacks of the report have full names; here each node repeats its name. */
#define NAME_SHOWN 512

static void put_name(struct json *j, const char *member, const char *name)
{
	char cut[NAME_SHOWN + sizeof("...")];

	if (!name || strlen(name) <= NAME_SHOWN) {
		json_str(j, member, name);
		return;
	}
	memcpy(cut, name, NAME_SHOWN);
	strcpy(cut + NAME_SHOWN, "...");
	json_str(j, member, cut);
}

static void put_node(const struct map *m, struct json *j, const struct map_final *f,
		     uint32_t parent)
{
	double idle = map_idle_share(&f->sums);

	json_open(j, NULL);
	if (f != m->finals)
		json_u64(j, "parent", parent);
	json_sym(j, "kind", kinds[f->kind]);
	if (f->kind == MAP_PROCESS)
		json_u64(j, "pid", f->number);
	else
		put_name(j, "name", f->name);
	if (f->file)
		put_name(j, "file", f->file);
	if (f->is_numbered)
		json_u64(j, "number", f->number - 1);
	if (f->sums.passes)
		json_u64(j, "passes", f->sums.passes);
	if (f->kind == MAP_ITERATIONS)
		json_u64(j, "iterations", f->per);
	put_sums(j, &f->sums);
	if (idle >= 0) {
		json_f64(j, "gpu_idle_share", idle);
		json_sym(j, "bound", 1 - idle >= GPU_BOUND_SHARE ? "gpu" : "host");
	}
	put_mean(j, f);
	json_close(j);
}

/* Parents first: "parent" is an index in the list. */
static void put_nodes(const struct map *m, struct json *j)
{
	uint32_t *place = calloc(m->final_keys.cnt + 1, sizeof(*place)), n = 0, at = 0;

	json_open_array(j, "nodes");
	while (place && m->finals) {
		const struct map_final *f = &m->finals[at];

		place[at] = n++;
		put_node(m, j, f, place[f->parent]);
		if (f->first != MAP_NONE) {
			at = f->first;
			continue;
		}
		while (at && m->finals[at].next == MAP_NONE)
			at = m->finals[at].parent;
		if (!at)
			break;
		at = m->finals[at].next;
	}
	json_close_array(j);
	free(place);
}

static void put_functions(const struct map *m, struct json *j)
{
	json_open_array(j, "functions");
	for (uint32_t i = 0; m->functions && i < m->function_keys.cnt; i++) {
		const struct map_function *f = &m->functions[i];

		json_open(j, NULL);
		put_name(j, "name", f->name);
		put_name(j, "file", f->file);
		json_u64(j, "passes", f->total.passes);
		json_open(j, "self");
		put_sums(j, &f->self);
		json_close(j);
		json_open(j, "total");
		put_sums(j, &f->total);
		json_close(j);
		json_close(j);
	}
	json_close_array(j);
}

void map_json(const void *a, struct json *j)
{
	const struct map *m = a;

	json_open(j, "map");
	put_nodes(m, j);
	put_functions(m, j);
	json_u64(j, "cut_frames", m->cut_frames);
	json_u64(j, "unnamed_frames", m->unnamed_frames);
	json_u64(j, "early", m->early);
	json_u64(j, "unknown_executions", m->unknown_gpu);
	json_u64(j, "rejected", m->rejected);
	json_close(j);
}
