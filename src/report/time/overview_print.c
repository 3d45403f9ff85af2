/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The overview as JSON and as text. */
#include "overview_priv.h"
#include "report/layers/communication.h"
#include "report/section.h"
#include "text/overhead.h"
#include "util/demangle.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int by_name(const void *a, const void *b)
{
	const struct ov_fn *x = *(const struct ov_fn *const *)a;
	const struct ov_fn *y = *(const struct ov_fn *const *)b;

	return strcmp(x->fn->name, y->fn->name);
}

static int row_by_time(const void *a, const void *b)
{
	const struct ov_fn_row *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns) ?: strcmp(x->fn->name, y->fn->name);
}

static int class_by_time(const void *a, const void *b, void *ctx)
{
	const struct overview_totals *t = ctx;
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return DESCENDING(t->class_ns[x], t->class_ns[y]) ?: ASCENDING(x, y);
}

static void row_add(struct ov_fn_row *row, struct loghist *h, const struct ov_fn *f)
{
	row->fn = row->fn ?: f->fn;
	row->cnt += f->cnt;
	row->timed_cnt += f->timed_cnt;
	row->total_ns += f->total_ns;
	row->error_cnt += f->error_cnt;
	row->max_ns = f->max_ns > row->max_ns ? f->max_ns : row->max_ns;
	for (unsigned i = 0; f->loghist && i < LOGHIST_BUCKETS; i++)
		h->n[i] += f->loghist->n[i];
}

/* Merges the functions from list[*i] on that share a public name; moves *i past them. */
static void make_row(struct ov_fn_row *row, const struct ov_fn **list, unsigned cnt, unsigned *i)
{
	static const double parts[] = {0.5, 0.95, 0.99};
	struct loghist h = {0};

	do
		row_add(row, &h, list[(*i)++]);
	while (*i < cnt && !strcmp(list[*i]->fn->name, row->fn->name));
	for (unsigned k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
		row->percentile[k] = loghist_percentile(&h, row->timed_cnt, parts[k], row->max_ns);
}

void overview_finish(void *a)
{
	struct overview *o = a;
	unsigned n = o->fn_keys.cnt < o->fn_cap ? o->fn_keys.cnt : o->fn_cap;
	const struct ov_fn **list = calloc(n + 1, sizeof(*list));

	for (unsigned i = 0; i < CLASS_CNT; i++)
		o->by_time[i] = i;
	qsort_r(o->by_time, CLASS_CNT, sizeof(o->by_time[0]), class_by_time, &o->t);
	o->rows = calloc(n + 1, sizeof(*o->rows));
	if (!list || !o->rows)
		goto out;
	for (unsigned i = 0; i < n; i++)
		list[i] = &o->fns[i];
	qsort(list, n, sizeof(*list), by_name);
	for (unsigned i = 0; i < n; o->row_cnt++)
		make_row(&o->rows[o->row_cnt], list, n, &i);
	qsort(o->rows, o->row_cnt, sizeof(*o->rows), row_by_time);
out:
	free(list);
}

/* Section */

static const char *cuda_text(char buf[SECTION_BUF], int version)
{
	snprintf(buf, SECTION_BUF, "%d.%d", version / 1000, version % 1000 / 10);
	return buf;
}

static const char *error_text(char buf[SECTION_BUF], const struct ov_error *e)
{
	const char *name = fn_result_name(e->first, e->code);

	snprintf(buf, SECTION_BUF, "%d", e->code);
	return name ? name : buf;
}

/* NULL: the symbol is not mangled. */
static const char *cost_name(char buf[SECTION_BUF], const struct trace_fn_cost *c)
{
	char *name = demangle(c->fn->symbol, NULL);

	if (!name)
		return NULL;
	snprintf(buf, SECTION_BUF, "%s", name);
	free(name);
	return buf;
}

static uint32_t rank_of(const struct report *r, const struct ov_proc *p)
{
	uint32_t rank;

	communication_rank(r, p->pid, &rank);
	return rank;
}

static bool has_rank(const struct report *r, const struct ov_proc *p)
{
	uint32_t rank;

	return communication_rank(r, p->pid, &rank);
}

static uint64_t dropped(const struct trace_end *end)
{
	return end ? end->bad_record_cnt + end->drops[CT_DROP_CTXSW] + trace_lost(end) : 0;
}

#define SECTION_STATE struct overview
#define SECTION_ROWS  "report/time/overview.section"
#include "report/section_rows.h"

/* Text */

static void print_errors(const struct overview *o, const struct term *term)
{
	char text[64];

	if (!o->t.error_cnt)
		return;
	term_section(term, "Failed calls", "%s", HUMAN_COUNT(o->t.error_cnt));
	for (unsigned i = 0; i < o->error_kinds; i++) {
		const struct ov_error *e = &o->errors[i];
		const char *name = fn_result_name(e->first, e->code);

		snprintf(text, sizeof(text), "error %d", e->code);
		term_para(term, "%s x %s, first %s", HUMAN_COUNT(e->cnt), name ? name : text,
			  e->first->name);
	}
}

static void print_cost(const struct trace_end *end, const struct term *term)
{
	char share[128];

	if (!end || !end->cost_ns)
		return;
	overhead_share(share, sizeof(share), end);
	term_section(term, "Tracing overhead", "%s, %s", HUMAN_TIME(end->cost_ns), share);
	overhead_print(term, end);
}

void overview_callers(const struct report *r, char *text, size_t size)
{
	const struct overview *o = r->an[AN_OVERVIEW];
	uint64_t ranks = 0;

	for (unsigned i = 0; i < o->proc_keys.cnt && i < o->proc_cap; i++)
		ranks += o->procs[i].call_cnt && has_rank(r, &o->procs[i]);
	human_processes(text, size, o->caller_cnt, ranks);
}

void overview_print(const void *a, const struct term *term)
{
	const struct overview *o = a;
	char procs[96];

	overview_callers(o->r, procs, sizeof(procs));
	term_section(term, "Overview", "%s in %s, %s, by %s (%s)",
		     HUMAN_NOUNS(o->t.call_cnt, "CUDA call"), HUMAN_TIME(report_wall_ns(o->r)),
		     HUMAN_NOUNS(o->t.launch_cnt + o->t.graph_launch_cnt, "launch"), procs,
		     HUMAN_NOUNS(o->thread_keys.cnt, "thread"));
	section_print(o->r, &overview_table, o, o, "classes", TABLE_ROWS, term);
	term_gap(term);
	section_print(o->r, &overview_table, o, o, "functions", 0, term);
	print_errors(o, term);
	print_cost(o->r->end, term);
}
