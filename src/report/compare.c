/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compares ranks and other processes that launch; each row is as if its process were alone. */
#include "report/collect.h"

#include "model/call.h"
#include "report/iter/iter.h"
#include "report/memory/memory.h"
#include "report/time/idle.h"
#include "report/time/stage.h"
#include "report/layers/communication.h"
#include "report/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 64
#define NAME_SZ	 64

struct compare_row {
	uint32_t pid;
	const char *comm;
	uint64_t launches;
};

struct compare {
	struct report *r;
	struct compare_row rows[ROWS_MAX];
	unsigned cnt;
	struct compare_row *last; /* row of the latest event */
	uint64_t rejected;	  /* launches of more processes */
};

static void *compare__new(struct report *r)
{
	struct compare *c = calloc(1, sizeof(*c));

	if (c)
		c->r = r;
	return c;
}

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

static void put_stages(const struct compare *c, const struct compare_row *row, struct json *j)
{
	struct stage_result res;

	if (!stage_of_process(c->r, row->pid, &res))
		return;
	json_open(j, "stages");
	for (unsigned i = 0; i < STAGE_CNT; i++)
		if (res.stages[i].wall_ns)
			json_u64(j, stage_name(i), res.stages[i].wall_ns);
	json_close(j);
}

static void compare_json(const void *a, struct json *j)
{
	const struct compare *c = a;

	json_open_array(j, "compared");
	for (unsigned i = 0; c->cnt > 1 && i < c->cnt; i++) {
		const struct compare_row *row = &c->rows[i];
		struct gpu_of_process gpu;
		struct iter_result it;
		uint32_t rank;

		json_open(j, NULL);
		json_u64(j, "pid", row->pid);
		json_str(j, "comm", row->comm);
		if (communication_rank(c->r, row->pid, &rank))
			json_u64(j, "rank", rank);
		json_u64(j, "launches", row->launches);
		iter_of_process(c->r, row->pid, &it);
		json_u64(j, "iterations", it.count);
		json_u64(j, "warmup", it.warmup);
		if (it.count) {
			json_u64(j, "iteration_ns", it.dist[ITS_TIME].median);
			json_u64(j, "iteration_launches",
				 it.dist[ITS_KERNELS].median + it.dist[ITS_GRAPHS].median);
			json_u64(j, "iteration_sync_ns", it.dist[ITS_SYNC].median);
		}
		put_stages(c, row, j);
		json_u64(j, "idle_ns", idle_of_process(c->r, row->pid));
		if (gpu_of_process(c->r, row->pid, &gpu)) {
			json_u64(j, "gpu_busy_ns", gpu.busy_ns);
			json_u64(j, "gpu_idle_ns", gpu.idle_ns);
			json_u64(j, "gpu_communicating_ns", gpu.comm_ns);
			json_u64(j, "gpu_alone_ns", gpu.alone_ns);
		}
		json_u64(j, "device_peak_bytes", memory_peak_of_process(c->r, row->pid));
		json_close(j);
	}
	json_close_array(j);
}

/* Time of each process by stage; a stage that no process has gets no column. */
static void print_stages(const struct compare *c, char name[][NAME_SZ], const struct term *term)
{
	struct stage_result of[TABLE_ROWS];
	uint64_t sum[STAGE_CNT] = {0};
	char heads[128] = "";
	struct table t;
	unsigned cnt = c->cnt < TABLE_ROWS ? c->cnt : TABLE_ROWS;

	for (unsigned i = 0; i < cnt; i++) {
		stage_of_process(c->r, c->rows[i].pid, &of[i]);
		for (unsigned s = 0; s < STAGE_CNT; s++)
			sum[s] += of[i].stages[s].wall_ns;
	}
	for (unsigned s = 0; s < STAGE_CNT; s++)
		if (sum[s])
			strcat(strcat(heads, stage_name(s)), "|");
	if (!*heads)
		return;
	table__init(&t, strcat(heads, "stages of process"));
	for (unsigned i = 0; i < cnt; i++) {
		struct table_row *row = table__row(&t, name[i]);
		unsigned col = 0;

		for (unsigned s = 0; s < STAGE_CNT; s++)
			if (sum[s])
				human_time(row->cell[col++], of[i].stages[s].wall_ns);
	}
	putc('\n', term->f);
	table__print(&t, term);
}

static void compare_print(const void *a, const struct term *term)
{
	const struct compare *c = a;
	char name[ROWS_MAX][NAME_SZ];
	bool has_gpu = false;
	struct table t;

	if (c->cnt < 2)
		return;
	term_section(term, "Processes", "%u that launch, beside each other", c->cnt);
	table__init(&t, "launches|iterations|each|waits|idle|communicates|alone|memory|"
			"process");
	for (unsigned i = 0; i < c->cnt && i < TABLE_ROWS; i++) {
		const struct compare_row *row = &c->rows[i];
		struct gpu_of_process gpu;
		struct table_row *cells;
		struct iter_result it;
		uint32_t rank;

		if (communication_rank(c->r, row->pid, &rank))
			snprintf(name[i], sizeof(name[i]), "rank %u", rank);
		else
			snprintf(name[i], sizeof(name[i]), "%u %s", row->pid, row->comm);
		cells = table__row(&t, name[i]);
		human_count(cells->cell[0], row->launches);
		iter_of_process(c->r, row->pid, &it);
		if (it.count) {
			human_count(cells->cell[1], it.count);
			human_time(cells->cell[2], it.dist[ITS_TIME].median);
			human_time(cells->cell[3], it.dist[ITS_SYNC].median);
		}
		human_time(cells->cell[4], idle_of_process(c->r, row->pid));
		if (gpu_of_process(c->r, row->pid, &gpu)) {
			has_gpu = true;
			human_time(cells->cell[5], gpu.comm_ns);
			human_time(cells->cell[6], gpu.alone_ns);
		}
		human_bytes(cells->cell[7], memory_peak_of_process(c->r, row->pid));
	}
	table__print(&t, term);
	if (c->cnt > TABLE_ROWS || c->rejected)
		term_para(term, "There are more processes; the JSON form has %u.", ROWS_MAX);
	term_para(term, "Each: the median iteration; waits: of that, in waits for the GPU. Idle is "
			"what the host knows of. Memory: the most of a device.");
	print_stages(c, name, term);
	if (has_gpu)
		term_para(term, "Alone: the GPU communicated and did nothing else. GPUs that "
				"several processes use are left out.");
}

const struct analysis_ops compare_ops = {
	.name = "compared",
	.new = compare__new,
	.event = compare_event,
	.json = compare_json,
	.print = compare_print,
	.free = free,
	.of_args = true,
};
