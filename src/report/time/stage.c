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
 * Time outside calls belongs to the surrounding stage: init, load, warmup, inference, cleanup,
 * other. A moment in calls of several threads belongs to the call that ends first after it.
 *
 * The rules depend on later calls, so the trace is kept as cells: sums by function, between points
 * where a stage may end (a wait, a module, the first call, context and launch). There are at most
 * STAGE_CELLS: a long trace has its cells joined in pairs, and a boundary may then be off by one
 * part in 500 of its waits (stage_cells.c). Each process has its own boundaries, found from its own
 * calls (stage_each.c).
 */
#include "stage_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "util/law.h"
#include "report/iter/iter.h"
#include "util/order.h"

#define LOADED 0.99

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

enum stage_part stage_part_of(const struct api_fn *fn)
{
	if (fn->class == CLASS_LAUNCH || fn->op == OP_GRAPH_LAUNCH)
		return PART_LAUNCH;
	switch (fn->class) {
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
		s->res.all.ns[stage_part_of(row->fn)] += row->wall_ns;
		if (steady)
			steady->ns[stage_part_of(row->fn)] += row->wall_ns;
		if (steady && row->fn->class == CLASS_TRANSFER)
			s->res.run_bytes += row->bytes;
		if (stage == STAGE_LOAD && !s->pid)
			add_load_fn(s, row);
	}
}

static int fn_by_time(const void *a, const void *b)
{
	const struct stage_fn *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns) ?: strcmp(x->name, y->name);
}

void stages_end(struct stages *s, const struct iter_result *iter)
{
	uint64_t loaded_ns, parts_ns = 0, stages_ns = 0;

	stages_close(s);
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
	unsigned n;

	if (!s->has_call)
		return STAGE_OTHER;
	if (ns >= s->tail.begin_ns)
		return STAGE_CLEANUP;
	/* the last that begins before it */
	n = COUNT_LEADING(i, s->cell_cnt, s->cells[i].begin_ns <= ns);
	iter_result(r, &iter);
	return stage_of_time(phase_of(s, n ? n - 1 : 0, s->loaded_ns, &iter));
}
