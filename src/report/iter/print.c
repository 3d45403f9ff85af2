/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations as JSON and as text. */
#include "iter_priv.h"

#include <stdlib.h>
#include <string.h>

static const char *const stat_names[ITS_CNT] = {
	[ITS_KERNELS] = "kernels",  [ITS_GRAPHS] = "graph_launches", [ITS_CALLS] = "calls",
	[ITS_HTOD] = "htod_bytes",  [ITS_DTOH] = "dtoh_bytes",	     [ITS_TIME] = "time_ns",
	[ITS_LAUNCH] = "launch_ns", [ITS_SYNC] = "sync_ns",	     [ITS_GAP] = "gap_ns",
};

struct kernel_row {
	uint32_t kernel, cnt;
};

static int by_kernel(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int by_cnt(const void *a, const void *b)
{
	const struct kernel_row *x = a, *y = b;

	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? 1 : -1;
	return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

/* Kernels of a typical iteration, most launches first. */
static struct kernel_row *kernel_rows(const struct iter *it, unsigned *cnt)
{
	uint32_t *k = calloc(it->sample_cnt + 1, sizeof(*k));
	struct kernel_row *rows = calloc(it->sample_cnt + 1, sizeof(*rows));
	unsigned n = 0;

	*cnt = 0;
	if (!k || !rows)
		goto out;
	if (it->sample_cnt)
		memcpy(k, it->sample, it->sample_cnt * sizeof(*k));
	qsort(k, it->sample_cnt, sizeof(*k), by_kernel);
	for (unsigned i = 0; i < it->sample_cnt; i++) {
		if (!n || rows[n - 1].kernel != k[i])
			rows[n++].kernel = k[i];
		rows[n - 1].cnt++;
	}
	qsort(rows, n, sizeof(*rows), by_cnt);
	*cnt = n;
out:
	free(k);
	return rows;
}

static void put_rounds(const struct iter *it, struct json *j)
{
	json_open_array(j, "rounds");
	for (unsigned i = 0, first; i < it->cnt;) {
		for (first = i; i < it->cnt && it->list[i].round == it->list[first].round;)
			i++;
		json_open(j, NULL);
		json_u64(j, "first", first);
		json_u64(j, "count", i - first);
		json_close(j);
	}
	json_close_array(j);
}

static void put_dist(struct json *j, const char *name, const struct iter_dist *d)
{
	json_open(j, name);
	json_u64(j, "min", d->min);
	json_u64(j, "median", d->median);
	json_f64(j, "mean", d->mean);
	json_u64(j, "p95", d->p95);
	json_u64(j, "p99", d->p99);
	json_u64(j, "max", d->max);
	json_u64(j, "total", d->total);
	json_close(j);
}

static void put_list(const struct iter *it, struct json *j)
{
	json_open_array(j, "list");
	for (unsigned i = 0; i < it->cnt && i < IT_LIST_MAX; i++) {
		const struct it_iter *iter = &it->list[i];

		json_open(j, NULL);
		report_json_ts(it->r, j, "ts", iter->begin_ns);
		json_u64(j, "time_ns", iter_value(iter, ITS_TIME));
		json_u64(j, "kernels", iter->kernels);
		json_u64(j, "graph_launches", iter->graphs);
		json_u64(j, "calls", iter->sums.calls);
		json_u64(j, "launch_ns", iter->sums.launch_ns);
		json_u64(j, "sync_ns", iter->sums.sync_ns);
		json_u64(j, "bytes", iter->sums.htod + iter->sums.dtoh);
		if (iter->warmup)
			json_bool(j, "warmup", true);
		json_close(j);
	}
	json_close_array(j);
}

void iter_json(const void *a, struct json *j)
{
	static const char *const modes[] = {
		[ITER_AUTO] = "auto",
		[ITER_MARKER] = "marker",
		[ITER_SYNC] = "sync",
		[ITER_GAP] = "gap",
	};
	const struct iter *it = a;
	unsigned cnt;
	struct kernel_row *rows = kernel_rows(it, &cnt);

	json_open(j, "iterations");
	json_str(j, "mode", modes[it->r->opts.iter]);
	json_f64(j, "confidence", it->res.confidence);
	json_str(j, "why", it->why);
	json_u64(j, "pid", it->res.pid);
	json_u64(j, "tid", it->res.tid);
	json_u64(j, "count", it->cnt);
	json_u64(j, "warmup", it->res.warmup);
	put_rounds(it, j);
	for (unsigned i = 0; i < ITS_CNT; i++)
		put_dist(j, stat_names[i], &it->res.dist[i]);
	json_open_array(j, "sequence");
	for (unsigned i = 0; i < cnt; i++) {
		json_open(j, NULL);
		json_str(j, "kernel", iter_kernel_name(it, rows[i].kernel));
		json_u64(j, "count", rows[i].cnt);
		json_close(j);
	}
	json_close_array(j);
	put_list(it, j);
	json_close(j);
	free(rows);
}

static void put_row(struct table *t, const struct iter *it, enum iter_stat stat, const char *name,
		    void (*cell)(char *, double))
{
	const struct iter_dist *d = &it->res.dist[stat];
	const double v[] = {d->min, d->median, d->mean, d->p95, d->p99, d->max};
	struct table_row *row;

	if (!d->max)
		return;
	row = table__row(t, name);
	for (unsigned i = 0; i < 6; i++)
		cell(row->cell[i], v[i]);
}

static void cell_count(char *cell, double v)
{
	human_count(cell, (uint64_t)(v + 0.5));
}

static void cell_bytes(char *cell, double v)
{
	human_bytes(cell, (uint64_t)(v + 0.5));
}

static void cell_time(char *cell, double v)
{
	human_time(cell, v);
}

static void print_stats(const struct iter *it, const struct term *term)
{
	struct table t;

	table__init(&t, "min|median|mean|p95|p99|max|of each iteration");
	put_row(&t, it, ITS_KERNELS, "kernel launches", cell_count);
	put_row(&t, it, ITS_GRAPHS, "graph launches", cell_count);
	put_row(&t, it, ITS_CALLS, "CUDA calls", cell_count);
	put_row(&t, it, ITS_HTOD, "bytes HtoD", cell_bytes);
	put_row(&t, it, ITS_DTOH, "bytes DtoH", cell_bytes);
	put_row(&t, it, ITS_TIME, "time", cell_time);
	put_row(&t, it, ITS_LAUNCH, "in launches", cell_time);
	put_row(&t, it, ITS_SYNC, "in waits", cell_time);
	put_row(&t, it, ITS_GAP, "in no call", cell_time);
	table__print(&t, term);
}

static void print_kernels(const struct iter *it, const struct term *term)
{
	unsigned cnt, top = report_rows(term, it->r->opts.top);
	struct kernel_row *rows = kernel_rows(it, &cnt);
	struct table_row *row;
	struct table t;

	table__init(&t, "times|launched by a typical iteration");
	for (unsigned i = 0; i < cnt && i < top; i++) {
		row = table__row(&t, iter_kernel_name(it, rows[i].kernel));
		human_count(row->cell[0], rows[i].cnt);
	}
	if (t.row_cnt) {
		putc('\n', term->f);
		table__print(&t, term);
	}
	free(rows);
}

void iter_print(const void *a, const struct term *term)
{
	const struct iter *it = a;
	char count[CELL_SZ], rounds[CELL_SZ], warmup[CELL_SZ];

	if (!it->cnt) {
		term_section(term, "Iterations", "none found: %s", it->why);
		return;
	}
	human_count(count, it->cnt);
	human_count(rounds, it->round_cnt);
	human_count(warmup, it->res.warmup);
	term_section(term, "Iterations",
		     "%s in %s round%s; %s of warm-up are not in the numbers below; "
		     "confidence %.2f",
		     count, rounds, plural(it->round_cnt), warmup, it->res.confidence);
	term_para(term, "%s.", it->why);
	print_stats(it, term);
	print_kernels(it, term);
}
