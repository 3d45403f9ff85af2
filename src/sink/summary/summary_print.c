/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The summary as text. Empty sections are omitted. */
#include "summary_priv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "decode/nv/nv.h"
#include "text/overhead.h"
#include "text/losses_text.h"
#include "text/table.h"

/* From this width on there is room for more columns and longer lists. */
#define WIDE 100

#define TOP_NARROW 8
#define TOP_WIDE   12
#define TOP_WAITS  5

int summary_top(const struct term *term)
{
	return term->width >= WIDE ? TOP_WIDE : TOP_NARROW;
}

struct losses summary_losses(const struct summary *s, const struct trace_end *end)
{
	struct losses lost = s->lost;

	losses__end(&lost, end);
	lost.of_report = true;
	return lost;
}

static void print_head(const struct summary *s, const struct term *term,
		       const struct trace_info *info, const struct trace_end *end)
{
	uint64_t wall_ns = end->end_ns > info->base_ns ? end->end_ns - info->base_ns : 0;
	char calls[CELL_SZ], time[CELL_SZ], rate[CELL_SZ], procs[CELL_SZ];

	human_count(calls, s->call_cnt);
	human_time(time, wall_ns);
	human_count(rate, wall_ns ? s->call_cnt * 1e9 / wall_ns + 0.5 : 0);
	human_count(procs, s->proc_cnt);
	term_section(term, "Summary", "%s CUDA call%s in %s by %s process%s (%s calls/s)", calls,
		     plural(s->call_cnt), time, procs, plural_es(s->proc_cnt), rate);
}

/* After a GPU error, results may be wrong. */
static void print_xids(const struct summary *s, const struct term *term)
{
	const struct driver_stat *d = &s->driver;
	char count[CELL_SZ], text[512];

	if (!d->xid_cnt)
		return;
	human_count(count, d->xid_cnt);
	fputs(term->color ? "\033[1;31m" : "", term->f);
	fprintf(term->f, "\nXID: the driver reported %s error%s of the GPU\n", count,
		plural(d->xid_cnt));
	for (unsigned i = 0; i < d->xid_kinds; i++) {
		const struct xid_stat *x = &d->xids[i];
		const char *meaning = nv_xid_text(x->number);

		human_count(count, x->cnt);
		snprintf(text, sizeof(text), "%s x Xid %u (%s)%s%s", count, x->number,
			 meaning ? meaning : "unknown", *x->gpu ? " of " : "", x->gpu);
		fputs("  ", term->f);
		term_name(term, text, term->width - 2);
		putc('\n', term->f);
		if (!*x->message)
			continue;
		fputs("    ", term->f);
		term_name(term, x->message, term->width - 4);
		putc('\n', term->f);
	}
	fputs(term->color ? "\033[0m" : "", term->f);
}

static int class_by_time(const void *a, const void *b, void *ctx)
{
	const struct class_stat *c = ctx;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	if (c[x].total_ns != c[y].total_ns)
		return c[x].total_ns < c[y].total_ns ? 1 : -1;
	return (x > y) - (x < y);
}

static void print_classes(const struct summary *s, const struct term *term)
{
	unsigned order[CLASS_CNT], i;
	const struct class_stat *c;
	struct table_row *r;
	struct table t;

	for (i = 0; i < CLASS_CNT; i++)
		order[i] = i;
	qsort_r(order, CLASS_CNT, sizeof(order[0]), class_by_time, (void *)s->classes);
	putc('\n', term->f);
	table__init(&t, "calls|time|share|class");
	for (i = 0; i < CLASS_CNT; i++) {
		c = &s->classes[order[i]];
		if (!c->cnt)
			continue;
		r = table__row(&t, api_class_name(order[i]));
		human_count(r->cell[0], c->cnt);
		human_time(r->cell[1], c->total_ns);
		/* Driver calls made by NCCL are in the driver's rows. */
		if (c->top_ns || !c->total_ns)
			human_share(r->cell[2], c->top_ns, s->call_ns);
	}
	r = table__row(&t, "all");
	human_count(r->cell[0], s->call_cnt);
	human_time(r->cell[1], s->call_ns);
	table__print(&t, term);
}

static void print_graphs(const struct summary *s, const struct term *term)
{
	char launches[CELL_SZ], time[CELL_SZ], made[CELL_SZ], nodes[CELL_SZ];

	if (!s->graph_launch_cnt && !s->instantiate_cnt && !s->launch_node_cnt)
		return;
	human_count(launches, s->graph_launch_cnt);
	human_time(time, s->graph_launch_ns);
	human_count(made, s->instantiate_cnt);
	human_count(nodes, s->launch_node_cnt);
	term_section(term, "Graphs",
		     "%s launch%s in %s; %s instantiated, %s kernel launch%s captured", launches,
		     plural_es(s->graph_launch_cnt), time, made, nodes,
		     plural_es(s->launch_node_cnt));
}

static void print_kernels(const struct summary *s, const struct term *term)
{
	char launches[CELL_SZ], kinds[CELL_SZ], streams[CELL_SZ], time[CELL_SZ];
	const struct kernel_stat **list, *k;
	struct table_row *r;
	struct table t;
	size_t cnt, i;

	list = summary_kernels(s, &cnt);
	if (!cnt)
		goto out;
	human_count(launches, s->launch_cnt);
	/* Launches without a name form a row, but are no kernel. */
	human_count(kinds, s->launch_unnamed_cnt ? cnt - 1 : cnt);
	human_count(streams, s->stream_cnt);
	human_time(time, s->launch_ns);
	term_section(term, "Kernels", "%s launch%s of %s kernel%s on %s stream%s, %s of host time",
		     launches, plural_es(s->launch_cnt), kinds,
		     plural(s->launch_unnamed_cnt ? cnt - 1 : cnt), streams, plural(s->stream_cnt),
		     time);
	table__init(&t, s->run_gpus.cnt && s->launch_node_cnt
				? "launches|captured|time|mean|GPU time|GPU mean|kernel"
			: s->run_gpus.cnt    ? "launches|time|mean|GPU time|GPU mean|kernel"
			: s->launch_node_cnt ? "launches|captured|time|mean|kernel"
					     : "launches|time|mean|kernel");
	for (i = 0; i < cnt && i < (size_t)summary_top(term); i++) {
		unsigned c = 0;

		k = list[i];
		r = table__row(&t, k->name);
		human_count(r->cell[c++], k->cnt);
		if (s->launch_node_cnt)
			human_count(r->cell[c++], k->node_cnt);
		if (k->cnt != k->untimed_cnt) {
			human_time(r->cell[c], k->total_ns);
			human_time(r->cell[c + 1], (double)k->total_ns / (k->cnt - k->untimed_cnt));
		}
		if (!k->gpu_cnt)
			continue;
		human_time(r->cell[c + 2], k->gpu_ns);
		human_time(r->cell[c + 3], (double)k->gpu_ns / k->gpu_cnt);
	}
	table__print(&t, term);
out:
	free(list);
}

static void print_memory(const struct summary *s, const struct term *term)
{
	struct table_row *r;
	struct table t;
	unsigned i;

	table__init(&t, "allocs|frees|allocated|peak|at end|memory");
	for (i = 0; i < MEM_KIND_CNT; i++) {
		const struct mem_stat *m = &s->mem[i];

		if (!m->alloc_cnt && !m->free_cnt && !m->peak)
			continue;
		r = table__row(&t, mem_shown_name[i]);
		human_count(r->cell[0], m->alloc_cnt);
		human_count(r->cell[1], m->free_cnt);
		human_bytes(r->cell[2], m->alloc_bytes);
		human_bytes(r->cell[3], m->peak);
		human_bytes(r->cell[4], m->live + m->kept);
	}
	if (!t.row_cnt)
		return;
	putc('\n', term->f);
	table__print(&t, term);
}

static void print_transfers(const struct summary *s, const struct term *term)
{
	struct table_row *r;
	struct table t;
	unsigned i;

	table__init(&t, "calls|bytes|time|waiting|bandwidth|transfer");
	for (i = 0; i < TRANSFER_KIND_CNT; i++) {
		const struct transfer_stat *x = &s->transfers[i];

		if (!x->cnt)
			continue;
		r = table__row(&t, transfer_kind_name(i));
		human_count(r->cell[0], x->cnt);
		human_bytes(r->cell[1], x->bytes);
		human_time(r->cell[2], x->total_ns);
		/* A memset or a copy within the device completes after the call has returned. */
		if (!x->sync_cnt || (i != COPY_DIR_HTOD && i != COPY_DIR_DTOH))
			continue;
		human_count(r->cell[3], x->sync_cnt);
		human_rate(r->cell[4], x->sync_bytes, x->sync_ns);
	}
	if (!t.row_cnt)
		return;
	putc('\n', term->f);
	table__print(&t, term);
}

/* A spinning wait keeps its CPU; a sleeping one yields it at once. */
static void put_how(char cell[CELL_SZ], const struct fn_stat *st)
{
	const char *how = "both";

	if (st->off_cpu_ns * 10 <= st->wait_ns)
		how = "spins";
	else if (st->off_cpu_ns * 2 >= st->wait_ns)
		how = "sleeps";
	snprintf(cell, CELL_SZ, "%s", how);
}

static void print_waits(const struct summary *s, const struct term *term, struct fn_row *rows,
			size_t cnt, uint64_t wall_ns)
{
	unsigned threads = hash_cnt(&s->wait_threads);
	char calls[CELL_SZ], time[CELL_SZ], share[CELL_SZ], by[CELL_SZ];
	struct table_row *r;
	struct table t;
	size_t i;

	if (!s->wait_cnt)
		return;
	human_count(calls, s->wait_cnt);
	human_time(time, s->wait_ns);
	human_share(share, s->wait_ns, (double)wall_ns * threads);
	human_count(by, threads);
	if (threads > 1)
		term_section(term, "Waiting for the GPU",
			     "%s in %s call%s by %s threads, %s of their time", time, calls,
			     plural(s->wait_cnt), by, share);
	else
		term_section(term, "Waiting for the GPU", "%s in %s call%s, %s of the trace", time,
			     calls, plural(s->wait_cnt), share);
	table__init(&t, s->has_off_cpu ? "calls|time|mean|off CPU|how|function"
				       : "calls|time|mean|function");
	qsort(rows, cnt, sizeof(*rows), fn_row_by_wait);
	for (i = 0; i < cnt && i < TOP_WAITS && rows[i].st.wait_cnt; i++) {
		const struct fn_stat *st = &rows[i].st;

		r = table__row(&t, rows[i].name);
		human_count(r->cell[0], st->wait_cnt);
		human_time(r->cell[1], st->wait_ns);
		human_time(r->cell[2], (double)st->wait_ns / st->wait_cnt);
		if (!s->has_off_cpu)
			continue;
		human_share(r->cell[3], st->off_cpu_ns, st->wait_ns);
		put_how(r->cell[4], st);
	}
	table__print(&t, term);
}

static void print_fns(const struct summary *s, const struct term *term, const struct fn_row *rows,
		      size_t cnt)
{
	bool wide = term->width >= WIDE;
	struct table_row *r;
	struct table t;
	size_t i;

	table__init(&t, wide ? "calls|share|time|mean|max|errors|function"
			     : "calls|time|mean|max|errors|function");
	for (i = 0; i < cnt && i < (size_t)summary_top(term); i++) {
		const struct fn_stat *st = &rows[i].st;
		unsigned c = 0;

		r = table__row(&t, rows[i].name);
		human_count(r->cell[c++], st->cnt);
		if (wide && st->fn->api == API_CUDA)
			human_share(r->cell[c], st->total_ns, s->call_ns);
		c += wide;
		if (st->cnt == st->untimed_cnt)
			continue;
		human_time(r->cell[c++], st->total_ns);
		human_time(r->cell[c++], (double)st->total_ns / (st->cnt - st->untimed_cnt));
		human_time(r->cell[c++], st->max_ns);
		if (st->error_cnt)
			human_count(r->cell[c], st->error_cnt);
		r->red = st->error_cnt;
	}
	table__print(&t, term);
}

static void print_functions(const struct summary *s, const struct term *term, struct fn_row *rows,
			    size_t cnt)
{
	char total[CELL_SZ];
	bool all = cnt <= (size_t)summary_top(term);

	if (!cnt)
		return;
	human_count(total, cnt);
	term_section(term, all ? "Functions by time" : "Top functions by time", "%s in all", total);
	qsort(rows, cnt, sizeof(*rows), fn_row_by_time);
	print_fns(s, term, rows, cnt);
	if (all)
		return;
	putc('\n', term->f);
	term_bold(term, "Top functions by calls\n");
	qsort(rows, cnt, sizeof(*rows), fn_row_by_count);
	print_fns(s, term, rows, cnt);
}

static int error_by_count(const void *a, const void *b)
{
	const struct error_stat *x = a, *y = b;

	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? 1 : -1;
	return (x->code > y->code) - (x->code < y->code);
}

static void print_errors(struct summary *s, const struct term *term)
{
	char names[TOP_WIDE][128], total[CELL_SZ];
	const char *name;
	struct table_row *r;
	struct table t;
	int i;

	if (!s->error_cnt)
		return;
	human_count(total, s->error_cnt);
	term_section(term, "Errors", "%s call%s failed", total, plural(s->error_cnt));
	table__init(&t, "calls|error");
	qsort(s->errors, s->error_kinds, sizeof(s->errors[0]), error_by_count);
	for (i = 0; i < (int)s->error_kinds && i < summary_top(term); i++) {
		name = fn_result_name(s->errors[i].first, s->errors[i].code);
		snprintf(names[i], sizeof(names[i]), "%s (%d), first from %s",
			 name ? name : "unknown", s->errors[i].code, s->errors[i].first->name);
		r = table__row(&t, names[i]);
		human_count(r->cell[0], s->errors[i].cnt);
		r->red = true;
	}
	table__print(&t, term);
}

static void print_unfinished(const struct summary *s, const struct term *term)
{
	char cnt[CELL_SZ], time[CELL_SZ], abandoned[CELL_SZ];

	human_count(abandoned, s->abandoned_cnt);
	if (s->unfinished_cnt) {
		human_count(cnt, s->unfinished_cnt);
		human_time(time, s->longest_unfinished_ns);
		term_section(term, "Unfinished", "%s call%s had not returned, %s after %s", cnt,
			     plural(s->unfinished_cnt), s->longest_unfinished, time);
	}
	if (s->abandoned_cnt)
		term_section(term, "Abandoned",
			     "%s call%s left by longjmp, exception or cancellation", abandoned,
			     plural(s->abandoned_cnt));
}

static void print_cost(const struct summary *s, const struct term *term,
		       const struct trace_info *info, const struct trace_end *end)
{
	const char *not_traced = end->not_traced ? end->not_traced : info->not_traced;
	char calls[CELL_SZ], each[CELL_SZ], cost[CELL_SZ], share[128];
	char counted[CELL_SZ], count_each[CELL_SZ];
	uint64_t entries;

	if (not_traced && *not_traced)
		term_section(term, "Not traced", "%s; --all traces everything", not_traced);
	if (!end->cost_ns)
		return;
	entries = end->stats[CT_STAT_ENTRIES] ? end->stats[CT_STAT_ENTRIES] : s->call_cnt;
	human_count(calls, entries - end->stats[CT_STAT_COUNTED]);
	human_count(counted, end->stats[CT_STAT_COUNTED]);
	human_time(each, end->probe_cost_ns);
	human_time(count_each, end->count_cost_ns);
	human_time(cost, end->cost_ns);
	overhead_share(share, sizeof(share), end);
	if (end->stats[CT_STAT_COUNTED])
		term_section(term, "Tracing overhead", "%s call%s × %s + %s counted × %s = %s, %s",
			     calls, plural(entries - end->stats[CT_STAT_COUNTED]), each, counted,
			     count_each, cost, share);
	else
		term_section(term, "Tracing overhead", "%s call%s × %s = %s, %s", calls,
			     plural(entries), each, cost, share);
	overhead_print(term, end);
}

void summary__print(struct summary *s, FILE *f, const struct trace_info *info,
		    const struct trace_end *end, int width, bool color)
{
	struct losses lost = summary_losses(s, end);
	uint64_t wall_ns = end->end_ns > info->base_ns ? end->end_ns - info->base_ns : 0;
	const struct term term = {.f = f, .width = width < 40 ? 40 : width, .color = color};
	size_t cnt;
	struct fn_row *rows = summary_fns(s, &cnt);

	gpu_devices__finish(&s->run_gpus);
	losses_print(&lost, &term, "something is missing in this trace");
	losses_print_chosen(&lost, &term);
	print_head(s, &term, info, end);
	print_xids(s, &term);
	if (s->call_cnt)
		print_classes(s, &term);
	if (info->redacted)
		term_section(&term, "Hidden", "%s%s", info->redacted,
			     summary_redacts_args(info)
				     ? ": kernels, graphs, memory and bytes are not shown"
				     : ": kernels have no names");
	if (!summary_redacts_args(info)) {
		print_kernels(s, &term);
		print_graphs(s, &term);
		print_memory(s, &term);
		print_transfers(s, &term);
	}
	summary_print_gpu(s, &term, end);
	range_sums__print(s->ranges, &term, end, term.width < 100 ? TOP_NARROW : TOP_WIDE);
	range_sums__print(s->operators, &term, end, term.width < 100 ? TOP_NARROW : TOP_WIDE);
	allocator_sums__print(s->allocator, &term);
	print_waits(s, &term, rows, cnt, wall_ns);
	print_functions(s, &term, rows, cnt);
	summary_print_driver(s, &term, rows, cnt, info, end);
	s->residency.info = info;
	residency__sort(&s->residency);
	residency__print(&s->residency, &term);
	gpu_sums__print(s->gpus, &term);
	print_errors(s, &term);
	print_unfinished(s, &term);
	summary_print_counted(&term, end);
	print_cost(s, &term, info, end);
	free(rows);
}
