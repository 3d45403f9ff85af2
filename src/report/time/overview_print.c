/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The overview as JSON and as text. */
#include "overview_priv.h"
#include "text/overhead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fn_row {
	const char *name;
	struct ov_fn f; /* its spread is the row's own */
	struct loghist loghist;
};

static int row_by_name(const void *a, const void *b)
{
	const struct ov_fn *x = *(const struct ov_fn *const *)a;
	const struct ov_fn *y = *(const struct ov_fn *const *)b;

	return strcmp(x->fn->name, y->fn->name);
}

static int row_by_time(const void *a, const void *b)
{
	const struct fn_row *x = a, *y = b;

	if (x->f.total_ns != y->f.total_ns)
		return x->f.total_ns < y->f.total_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void row_add(struct fn_row *row, const struct ov_fn *f)
{
	row->f.cnt += f->cnt;
	row->f.timed_cnt += f->timed_cnt;
	row->f.total_ns += f->total_ns;
	row->f.error_cnt += f->error_cnt;
	row->f.max_ns = f->max_ns > row->f.max_ns ? f->max_ns : row->f.max_ns;
	for (unsigned i = 0; f->loghist && i < LOGHIST_BUCKETS; i++)
		row->loghist.n[i] += f->loghist->n[i];
}

/* Functions by public name (cuMemAlloc and cuMemAlloc_v2 are one), most time first. */
static struct fn_row *fn_rows(const struct overview *o, unsigned *cnt)
{
	unsigned n = o->fn_keys.cnt < o->fn_cap ? o->fn_keys.cnt : o->fn_cap, out = 0;
	const struct ov_fn **list = calloc(n + 1, sizeof(*list));
	struct fn_row *rows = calloc(n + 1, sizeof(*rows));

	*cnt = 0;
	if (!list || !rows)
		goto out;
	for (unsigned i = 0; i < n; i++)
		list[i] = &o->fns[i];
	qsort(list, n, sizeof(*list), row_by_name);
	for (unsigned i = 0; i < n; i++) {
		if (!out || strcmp(rows[out - 1].name, list[i]->fn->name)) {
			rows[out].f.fn = list[i]->fn;
			rows[out++].name = list[i]->fn->name;
		}
		row_add(&rows[out - 1], list[i]);
	}
	qsort(rows, out, sizeof(*rows), row_by_time);
	*cnt = out;
out:
	free(list);
	return rows;
}

static void put_info(struct json *j, const struct trace_info *info)
{
	char text[32];

	json_str(j, "version", info->version);
	json_open_array(j, "command");
	for (unsigned i = 0; info->argv && i < info->argc; i++)
		json_str(j, NULL, info->argv[i]);
	json_close_array(j);
	json_str(j, "host", info->hostname);
	json_str(j, "kernel", info->kernel);
	json_str(j, "machine", info->machine);
	json_str(j, "driver_version", info->driver_version);
	snprintf(text, sizeof(text), "%d.%d", info->cuda_version / 1000,
		 info->cuda_version % 1000 / 10);
	json_str(j, "cuda_version", info->cuda_version > 0 ? text : NULL);
	json_str(j, "mechanism", info->mechanism);
	if (info->kernel_probe)
		json_str(j, "kernel_probe", info->kernel_probe);
	report_json_wall_time(j, info->wall_ns);
	json_str(j, "not_traced", info->not_traced);
	json_open_array(j, "degraded");
	for (unsigned i = 0; i < info->degraded_cnt; i++)
		json_str(j, NULL, info->degraded[i]);
	json_close_array(j);
}

static uint64_t dropped(const struct trace_end *end)
{
	return end->bad_record_cnt + end->drops[CT_DROP_CTXSW] + trace_lost(end);
}

static void put_costs(const struct trace_end *end, struct json *j)
{
	if (end->max_thread_overhead) {
		json_f64(j, "max_thread_overhead", end->max_thread_overhead);
		json_u64(j, "max_overhead_tid", end->max_overhead_tid);
	}
	json_open_array(j, "costs");
	for (unsigned i = 0; i < end->dear_cnt; i++) {
		json_open(j, NULL);
		json_str(j, "symbol", end->dear[i].fn->symbol);
		json_u64(j, "ns", end->dear[i].ns);
		json_close(j);
	}
	json_close_array(j);
	if (end->detail_low_saving_ns)
		json_u64(j, "detail_low_saving_ns", end->detail_low_saving_ns);
}

static void put_end(const struct report *r, struct json *j)
{
	const struct trace_end *end = r->end;

	json_u64(j, "wall_ns", report_wall_ns(r));
	json_bool(j, "complete", !report_is_incomplete(r));
	if (end) {
		json_str(j, "end_reason", end->reason);
		json_open(j, "drops");
		for (unsigned i = 0; i < CT_DROP_CNT; i++)
			json_u64(j, drop_name(i), end->drops[i]);
		json_close(j);
	}
	json_u64(j, "dropped", end ? dropped(end) : 0);
	json_f64(j, "probe_cost_ns", r->info->probe_cost_ns);
	if (end) {
		json_u64(j, "cost_ns", end->cost_ns);
		json_f64(j, "cost_share", end->cost_share);
		put_costs(end, j);
	}
}

static void put_procs(const struct overview *o, struct json *j)
{
	json_open_array(j, "processes");
	for (unsigned i = 0; i < o->proc_keys.cnt && i < o->proc_cap; i++) {
		const struct ov_proc *p = &o->procs[i];

		json_open(j, NULL);
		json_u64(j, "pid", p->pid);
		json_str(j, "comm", p->comm);
		report_json_ts(o->r, j, "first_ts", p->first_ns);
		report_json_ts(o->r, j, "last_ts", p->last_ns);
		json_u64(j, "calls", p->call_cnt);
		json_u64(j, "threads", p->thread_cnt);
		if (p->exited && p->signal)
			json_u64(j, "signal", p->signal);
		else if (p->exited)
			json_u64(j, "exit_code", p->exit_code);
		json_close(j);
	}
	json_close_array(j);
}

static void put_errors(const struct overview *o, struct json *j)
{
	char text[32];

	json_open_array(j, "error_codes");
	for (unsigned i = 0; i < o->error_kinds; i++) {
		const struct ov_error *e = &o->errors[i];
		const char *name = fn_result_name(e->first, e->code);

		snprintf(text, sizeof(text), "%d", e->code);
		json_open(j, NULL);
		json_str(j, "error", name ? name : text);
		json_u64(j, "count", e->cnt);
		json_str(j, "first", e->first->name);
		report_json_ts(o->r, j, "first_ts", e->first_ns);
		json_close(j);
	}
	json_close_array(j);
}

static int class_by_time(const void *a, const void *b, void *ctx)
{
	const struct overview_totals *t = ctx;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	if (t->class_ns[x] != t->class_ns[y])
		return t->class_ns[x] < t->class_ns[y] ? 1 : -1;
	return (x > y) - (x < y);
}

static void sort_classes(const struct overview *o, unsigned order[CLASS_CNT])
{
	for (unsigned i = 0; i < CLASS_CNT; i++)
		order[i] = i;
	qsort_r(order, CLASS_CNT, sizeof(order[0]), class_by_time, (void *)&o->t);
}

static void put_classes(const struct overview *o, struct json *j)
{
	unsigned order[CLASS_CNT];

	sort_classes(o, order);
	json_open_array(j, "classes");
	for (unsigned i = 0; i < CLASS_CNT; i++) {
		unsigned c = order[i];

		if (!o->t.class_cnt[c])
			continue;
		json_open(j, NULL);
		json_str(j, "class", api_class_name(c));
		json_u64(j, "count", o->t.class_cnt[c]);
		json_u64(j, "total_ns", o->t.class_ns[c]);
		json_u64(j, "mean_ns", ratio_of(o->t.class_ns[c], o->class_timed[c]) + 0.5);
		json_u64(j, "max_ns", o->class_max_ns[c]);
		json_f64(j, "share", ratio_of(o->t.class_top_ns[c], o->t.call_ns));
		json_close(j);
	}
	json_close_array(j);
}

static void put_fns(const struct overview *o, struct json *j)
{
	unsigned cnt;
	struct fn_row *rows = fn_rows(o, &cnt);

	json_open_array(j, "functions");
	for (unsigned i = 0; i < cnt; i++) {
		const struct ov_fn *f = &rows[i].f;

		json_open(j, NULL);
		json_str(j, "name", rows[i].name);
		json_str(j, "class", api_class_name(f->fn->class));
		json_u64(j, "count", f->cnt);
		json_u64(j, "total_ns", f->total_ns);
		json_u64(j, "mean_ns", ratio_of(f->total_ns, f->timed_cnt) + 0.5);
		json_u64(j, "p50_ns",
			 loghist_percentile(&rows[i].loghist, f->timed_cnt, 0.5, f->max_ns));
		json_u64(j, "p95_ns",
			 loghist_percentile(&rows[i].loghist, f->timed_cnt, 0.95, f->max_ns));
		json_u64(j, "p99_ns",
			 loghist_percentile(&rows[i].loghist, f->timed_cnt, 0.99, f->max_ns));
		json_u64(j, "max_ns", f->max_ns);
		json_u64(j, "errors", f->error_cnt);
		json_close(j);
	}
	json_close_array(j);
	free(rows);
}

void overview_json(const void *a, struct json *j)
{
	const struct overview *o = a;

	json_open(j, "overview");
	put_info(j, o->r->info);
	if (o->r->args_redacted || o->r->info->redacted)
		json_str(j, "redacted", o->r->args_redacted ? "arguments" : o->r->info->redacted);
	put_end(o->r, j);
	json_open(j, "events");
	for (unsigned i = 0; i < TYPE_CNT; i++)
		if (o->type_cnt[i])
			json_u64(j, event_type_name(i), o->type_cnt[i]);
	json_close(j);
	json_u64(j, "calls", o->t.call_cnt);
	json_u64(j, "call_ns", o->t.call_ns);
	json_u64(j, "errors", o->t.error_cnt);
	json_u64(j, "launches", o->t.launch_cnt);
	json_u64(j, "graph_launches", o->t.graph_launch_cnt);
	json_u64(j, "unfinished", o->unfinished_cnt);
	json_u64(j, "abandoned", o->abandoned_cnt);
	put_errors(o, j);
	put_procs(o, j);
	put_classes(o, j);
	put_fns(o, j);
	json_close(j);
}

/* Text */

static void print_classes(const struct overview *o, const struct term *term)
{
	unsigned order[CLASS_CNT];
	struct table_row *row;
	struct table t;

	sort_classes(o, order);
	table__init(&t, "calls|time|share|mean|max|class");
	for (unsigned i = 0; i < CLASS_CNT; i++) {
		unsigned c = order[i];

		if (!o->t.class_cnt[c])
			continue;
		row = table__row(&t, api_class_name(c));
		human_count(row->cell[0], o->t.class_cnt[c]);
		human_time(row->cell[1], o->t.class_ns[c]);
		/* What NCCL calls of the driver is in the rows of the driver. */
		if (o->t.class_top_ns[c] || !o->t.class_ns[c])
			human_share(row->cell[2], o->t.class_top_ns[c], o->t.call_ns);
		human_time(row->cell[3], ratio_of(o->t.class_ns[c], o->class_timed[c]));
		human_time(row->cell[4], o->class_max_ns[c]);
	}
	if (t.row_cnt)
		table__print(&t, term);
}

static void print_fns(const struct overview *o, const struct term *term)
{
	unsigned cnt, top = report_rows(term, o->r->opts.top);
	struct fn_row *rows = fn_rows(o, &cnt);
	struct table_row *row;
	struct table t;

	table__init(&t, "calls|time|p50|p95|p99|max|function");
	for (unsigned i = 0; i < cnt && i < top; i++) {
		const struct ov_fn *f = &rows[i].f;
		const struct loghist *h = &rows[i].loghist;

		row = table__row(&t, rows[i].name);
		row->red = f->error_cnt;
		human_count(row->cell[0], f->cnt);
		human_time(row->cell[1], f->total_ns);
		human_time(row->cell[2], loghist_percentile(h, f->timed_cnt, 0.5, f->max_ns));
		human_time(row->cell[3], loghist_percentile(h, f->timed_cnt, 0.95, f->max_ns));
		human_time(row->cell[4], loghist_percentile(h, f->timed_cnt, 0.99, f->max_ns));
		human_time(row->cell[5], f->max_ns);
	}
	putc('\n', term->f);
	if (t.row_cnt)
		table__print(&t, term);
	free(rows);
}

static void print_errors(const struct overview *o, const struct term *term)
{
	char cell[CELL_SZ], text[64];

	if (!o->t.error_cnt)
		return;
	human_count(cell, o->t.error_cnt);
	term_section(term, "Failed calls", "%s", cell);
	for (unsigned i = 0; i < o->error_kinds; i++) {
		const struct ov_error *e = &o->errors[i];
		const char *name = fn_result_name(e->first, e->code);

		snprintf(text, sizeof(text), "error %d", e->code);
		human_count(cell, e->cnt);
		term_para(term, "%s x %s, first %s", cell, name ? name : text, e->first->name);
	}
}

static void print_cost(const struct trace_end *end, const struct term *term)
{
	char cost[CELL_SZ], share[128];

	if (!end || !end->cost_ns)
		return;
	human_time(cost, end->cost_ns);
	overhead_share(share, sizeof(share), end);
	term_section(term, "Cost of tracing", "%s, %s", cost, share);
	overhead_print(term, end);
}

void overview_print(const void *a, const struct term *term)
{
	const struct overview *o = a;
	char calls[CELL_SZ], wall[CELL_SZ], launches[CELL_SZ], procs[CELL_SZ], threads[CELL_SZ];

	human_count(calls, o->t.call_cnt);
	human_time(wall, report_wall_ns(o->r));
	human_count(launches, o->t.launch_cnt + o->t.graph_launch_cnt);
	human_count(procs, o->caller_cnt);
	human_count(threads, o->thread_keys.cnt);
	term_section(term, "Overview",
		     "%s CUDA call%s in %s, %s launch%s, by %s process%s (%s thread%s)", calls,
		     plural(o->t.call_cnt), wall, launches,
		     plural_es(o->t.launch_cnt + o->t.graph_launch_cnt), procs,
		     plural_es(o->caller_cnt), threads, plural(o->thread_keys.cnt));
	print_classes(o, term);
	print_fns(o, term);
	print_errors(o, term);
	print_cost(o->r->end, term);
}
