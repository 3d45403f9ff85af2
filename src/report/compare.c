/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compares ranks and other processes that launch; each row is as if its process were alone. */
#include "report/collect.h"
#include "report/section.h"

#include "model/call.h"
#include "report/iter/iter.h"
#include "report/memory/memory.h"
#include "report/time/idle.h"
#include "report/time/stage.h"
#include "report/layers/communication.h"
#include "report/gpu/gpu.h"

#include <string.h>

#define ROWS_MAX 64

struct compare_row {
	uint32_t pid;
	const char *comm;
	uint64_t launches;
	/* set at the end */
	uint32_t rank;
	bool has_rank, has_stages, has_gpu;
	struct iter_result it;
	struct stage_result stages;
	struct gpu_of_process gpu;
	uint64_t idle_ns;
};

struct compare {
	struct report *r;
	struct compare_row rows[ROWS_MAX];
	unsigned cnt;
	struct compare_row *last; /* row of the latest event */
	uint64_t rejected;	  /* launches of more processes */
	bool has_gpu, has_stage[STAGE_CNT];
};

static struct compare_row *row_of(struct compare *c, const struct trace_event *ev)
{
	struct compare_row *row = c->rows;

	if (c->last && c->last->pid == ev->pid)
		return c->last;
	while (row < c->rows + c->cnt && row->pid != ev->pid)
		row++;
	if (row == c->rows + ROWS_MAX)
		return NULL;
	if (row == c->rows + c->cnt) {
		c->cnt++;
		row->pid = ev->pid;
		row->comm = ev->comm;
	}
	return c->last = row;
}

static void compare_event(void *a, const struct trace_event *ev)
{
	struct compare *c = a;
	struct compare_row *row;

	if (!call_was_made(ev) || !call_is_top(ev) ||
	    !(call_launches(ev) || call_launches_graph(ev)))
		return;
	row = row_of(c, ev);
	if (row)
		row->launches++;
	else
		c->rejected++;
}

static void compare_finish(void *a)
{
	struct compare *c = a;

	for (unsigned i = 0; i < c->cnt; i++) {
		struct compare_row *x = &c->rows[i];

		x->has_rank = communication_rank(c->r, x->pid, &x->rank);
		x->has_stages = stage_of_process(c->r, x->pid, &x->stages);
		x->has_gpu = gpu_of_process(c->r, x->pid, &x->gpu);
		x->idle_ns = idle_of_process(c->r, x->pid);
		iter_of_process(c->r, x->pid, &x->it);
		c->has_gpu |= x->has_gpu;
		for (unsigned s = 0; s < STAGE_CNT; s++)
			c->has_stage[s] |= x->stages.stages[s].wall_ns > 0;
	}
}

static const char *process_text(char buf[SECTION_BUF], const struct compare_row *x)
{
	if (x->has_rank)
		snprintf(buf, SECTION_BUF, "global rank %u", x->rank);
	else
		snprintf(buf, SECTION_BUF, "%u %s", x->pid, x->comm);
	return buf;
}

#define SECTION_STATE struct compare
#define SECTION_ROWS  "report/compare.section"
#include "report/section_rows.h"

static void print_stages(const struct compare *c, const struct term *term)
{
	bool any = false;

	for (unsigned s = 0; s < STAGE_CNT; s++)
		any |= c->has_stage[s];
	if (!any)
		return;
	term_gap(term);
	section_print(c->r, &compared_table, c, c, "stages", TABLE_ROWS, term);
}

static void compare_print(const void *a, const struct term *term)
{
	const struct compare *c = a;

	if (c->cnt < 2)
		return;
	term_section(term, "Processes", "%u that launch kernels", c->cnt);
	section_print(c->r, &compared_table, c, c, "compared", TABLE_ROWS, term);
	if (c->cnt > TABLE_ROWS || c->rejected)
		term_para(term, "There are more processes; the JSON form has %u.", ROWS_MAX);
	term_para(
		term,
		"Each: the median iteration; waits: its time in waits for the GPU; idle: a lower bound from host "
		"calls; memory: peak of a device.");
	print_stages(c, term);
	if (c->has_gpu)
		term_para(term, "Alone: the GPU only communicated. GPUs that several processes "
				"use are excluded.");
}

const struct analysis_ops compare_ops = {
	.name = "compared",
	.size = STATE_SIZE(struct compare),
	.event = compare_event,
	.finish = compare_finish,
	.section = &compared_table,
	.is_list = true,
	.print = compare_print,
	.of_args = true,
};
