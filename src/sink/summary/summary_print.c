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
#include "util/order.h"

#define TOP_NARROW 8
#define TOP_WIDE   12
#define TOP_WAITS  5

int summary_top(const struct term *term)
{
	return term->width >= SUMMARY_WIDE ? TOP_WIDE : TOP_NARROW;
}

struct losses summary_losses(const struct summary *s, const struct trace_end *end)
{
	struct losses lost = s->lost;

	losses__end(&lost, end);
	lost.of_report = true;
	return lost;
}

void summary_print_after_line(const struct summary_view *v, const struct section_table *of,
			      const char *list, const struct term *term)
{
	struct term mem = *term;
	char *text = NULL;
	size_t len;

	mem.f = open_memstream(&text, &len);
	if (!mem.f)
		return;
	summary_print_table(v, of, list, TABLE_ROWS, &mem);
	if (!fclose(mem.f) && len)
		fprintf(term->f, "\n%s", text);
	free(text);
}

static void print_head(const struct summary_view *v, const struct term *term)
{
	const struct summary *s = v->sum;
	uint64_t wall_ns = summary_wall_ns(v);
	char procs[96];

	human_processes(procs, sizeof(procs), s->proc_cnt, s->rank_cnt);
	term_section(term, "Summary", "%s in %s by %s (%s calls/s)",
		     HUMAN_NOUNS(s->call_cnt, "CUDA call"), HUMAN_TIME(wall_ns), procs,
		     HUMAN_COUNT(wall_ns ? s->call_cnt * 1e9 / wall_ns + 0.5 : 0));
}

void summary_xid_text(char *text, size_t size, const struct xid_stat *x)
{
	snprintf(text, size, "%s x Xid %u%s%s: %s", HUMAN_COUNT(x->cnt), x->number,
		 *x->gpu ? " of " : "", x->gpu, nv_xid_text(x->number) ?: "unknown");
}

/* After a GPU error, results may be wrong. */
static void print_xids(const struct summary *s, const struct term *term)
{
	const struct driver_stat *d = &s->driver;
	char text[512];

	if (!d->xid_cnt)
		return;
	fputs(term->color ? "\033[1;31m" : "", term->f);
	fprintf(term->f, "\nXID: the driver reported %s of the GPU\n",
		HUMAN_NOUNS(d->xid_cnt, "error"));
	for (unsigned i = 0; i < d->xid_kinds; i++) {
		const struct xid_stat *x = &d->xids[i];

		summary_xid_text(text, sizeof(text), x);
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

/* A time of calls of s. */
#define CALL_TIME(ns) ((ns) || !s->untimed_cnt ? HUMAN_TIME(ns) : "an unknown amount")

static void print_graphs(const struct summary *s, const struct term *term)
{
	if (!s->graph_launch_cnt && !s->instantiate_cnt && !s->launch_node_cnt)
		return;
	term_section(term, "Graphs",
		     "%s launch%s in %s; %s instantiated, %s kernel launch%s captured",
		     HUMAN_COUNT(s->graph_launch_cnt), plural_es(s->graph_launch_cnt),
		     CALL_TIME(s->graph_launch_ns), HUMAN_COUNT(s->instantiate_cnt),
		     HUMAN_COUNT(s->launch_node_cnt), plural_es(s->launch_node_cnt));
}

static void print_kernels(const struct summary_view *v, const struct term *term)
{
	const struct summary *s = v->sum;
	size_t cnt = v->kernel_cnt;

	if (!cnt)
		return;
	/* Launches without a name form a row, but are not a kernel. */
	term_section(term, "Kernels", "%s of %s on %s, %s of host time",
		     HUMAN_NOUNS(s->launch_cnt, "launch"),
		     HUMAN_NOUNS(s->launch_unnamed_cnt ? cnt - 1 : cnt, "kernel"),
		     HUMAN_NOUNS(s->stream_cnt, "stream"), CALL_TIME(s->launch_ns));
	summary_print_table(v, &summary_launches_table, "kernels", summary_top(term), term);
}

static void print_waits(struct summary_view *v, const struct term *term)
{
	uint64_t wall_ns = summary_wall_ns(v);
	const struct summary *s = v->sum;
	unsigned threads = hash_cnt(&s->wait_threads);

	if (!s->wait_cnt)
		return;
	if (threads > 1)
		term_section(term, "Waiting for the GPU",
			     "%s in %s by %s threads, %s of their time", CALL_TIME(s->wait_ns),
			     HUMAN_NOUNS(s->wait_cnt, "call"), HUMAN_COUNT(threads),
			     HUMAN_SHARE(s->wait_ns, (double)wall_ns * threads));
	else
		term_section(term, "Waiting for the GPU", "%s in %s, %s of the trace",
			     CALL_TIME(s->wait_ns), HUMAN_NOUNS(s->wait_cnt, "call"),
			     HUMAN_SHARE(s->wait_ns, (double)wall_ns * threads));
	v->is_waits = true;
	qsort(v->fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_wait);
	summary_print_table(v, &summary_table, "waits_shown", TOP_WAITS, term);
	v->is_waits = false;
}

static void print_functions(struct summary_view *v, const struct term *term)
{
	bool all = v->fn_cnt <= (size_t)summary_top(term);

	if (!v->fn_cnt)
		return;
	term_section(term, all ? "Functions by time" : "Top functions by time", "%s in all",
		     HUMAN_COUNT(v->fn_cnt));
	qsort(v->fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_time);
	summary_print_table(v, &summary_table, "functions", summary_top(term), term);
	if (all)
		return;
	term_heading(term, "Top functions by calls");
	qsort(v->fns, v->fn_cnt, sizeof(*v->fns), fn_row_by_count);
	summary_print_table(v, &summary_table, "functions", summary_top(term), term);
}

static int error_by_count(const void *a, const void *b)
{
	const struct error_stat *x = a, *y = b;

	return DESCENDING(x->cnt, y->cnt) ?: ASCENDING(x->code, y->code);
}

static void print_errors(const struct summary_view *v, const struct term *term)
{
	struct summary *s = v->sum;

	if (!s->error_cnt)
		return;
	term_section(term, "Errors", "%s failed", HUMAN_NOUNS(s->error_cnt, "call"));
	qsort(s->errors, s->error_kinds, sizeof(s->errors[0]), error_by_count);
	summary_print_table(v, &summary_table, "errors", summary_top(term), term);
}

static void print_unfinished(const struct summary *s, const struct term *term)
{
	if (s->unfinished_cnt) {
		term_section(term, "Unfinished", SUMMARY_UNFINISHED,
			     HUMAN_NOUNS(s->unfinished_cnt, "call"), s->longest_unfinished,
			     HUMAN_TIME(s->longest_unfinished_ns));
	}
	if (s->abandoned_cnt)
		term_section(term, "Abandoned", SUMMARY_ABANDONED,
			     HUMAN_NOUNS(s->abandoned_cnt, "call"));
}

static void print_cost(const struct summary *s, const struct term *term,
		       const struct trace_info *info, const struct trace_end *end)
{
	const char *not_traced = end->not_traced ? end->not_traced : info->not_traced;
	char share[128];
	uint64_t entries;

	if (not_traced && *not_traced)
		term_section(term, "Not traced", SUMMARY_NOT_TRACED, not_traced);
	if (!end->cost_ns)
		return;
	entries = end->stats[CT_STAT_ENTRIES] ? end->stats[CT_STAT_ENTRIES] : s->call_cnt;
	overhead_share(share, sizeof(share), end);
	if (end->stats[CT_STAT_COUNTED])
		term_section(term, "Tracing overhead", "%s × %s + %s counted × %s = %s, %s",
			     HUMAN_NOUNS(entries - end->stats[CT_STAT_COUNTED], "call"),
			     HUMAN_TIME(end->probe_cost_ns),
			     HUMAN_COUNT(end->stats[CT_STAT_COUNTED]),
			     HUMAN_TIME(end->count_cost_ns), HUMAN_TIME(end->cost_ns), share);
	else
		term_section(term, "Tracing overhead", "%s call%s × %s = %s, %s",
			     HUMAN_COUNT(entries - end->stats[CT_STAT_COUNTED]), plural(entries),
			     HUMAN_TIME(end->probe_cost_ns), HUMAN_TIME(end->cost_ns), share);
	overhead_print(term, end);
}

void summary__print(struct summary *s, FILE *f, const struct trace_info *info,
		    const struct trace_end *end, int width, bool color)
{
	struct term term = {.f = f, .width = width < 40 ? 40 : width, .color = color};
	struct summary_view v;

	summary_view__init(&v, s, info, end);
	losses_print(&v.lost, &term, "something is missing in this trace; " LOSSES_STAR);
	term.is_partial = losses__any(&v.lost);
	losses_print_chosen(&v.lost, &term, NULL);
	print_head(&v, &term);
	print_xids(s, &term);
	if (s->call_cnt)
		summary_print_after_line(&v, &summary_table, "by_time", &term);
	if (info->redacted)
		term_section(&term, "Hidden", "%s%s", info->redacted,
			     summary_redacts_args(info)
				     ? ": kernels, graphs, memory and bytes are not shown"
				     : ": kernels have no names");
	if (!summary_redacts_args(info)) {
		print_kernels(&v, &term);
		print_graphs(s, &term);
		summary_print_after_line(&v, &summary_table, "memory", &term);
		summary_print_after_line(&v, &summary_table, "transfers", &term);
	}
	summary_print_gpu(&v, &term);
	range_sums__print(s->ranges, &term, end, summary_top(&term));
	range_sums__print(s->operators, &term, end, summary_top(&term));
	allocator_sums__print(s->allocator, &term);
	print_waits(&v, &term);
	print_functions(&v, &term);
	summary_print_driver(&v, &term);
	residency__print(&s->residency, &term);
	gpu_sums__print(s->gpus, &term);
	print_errors(&v, &term);
	print_unfinished(s, &term);
	summary_print_counted(&v, &term);
	print_cost(s, &term, info, end);
	summary_view__free(&v);
}
