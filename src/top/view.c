/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PROC_PID,
	PROC_OWNER,
	PROC_CALLS,
	PROC_LAUNCHES,
	PROC_COPIED,
	PROC_MEMORY,
	PROC_WAIT,
	PROC_ERRORS,
	PROC_COST,
	PROC_CNT
};
static const struct view_col proc_cols[PROC_CNT] = {
	[PROC_PID] = {"PID", 7, false, 0, "process id"},
	[PROC_OWNER] = {"USER", 8, true, 3, "pod, container, or user"},
	[PROC_CALLS] = {"CALLS/S", 9, false, 0, "calls into traced libraries"},
	[PROC_LAUNCHES] = {"LAUNCH/S", 8, false, 1, "kernels and graphs launched"},
	[PROC_COPIED] = {"COPIED/S", 9, false, 2,
			 "bytes copied; +: more, by copies whose size is not counted"},
	[PROC_MEMORY] = {"MEMORY", 9, false, 1,
			 "device memory allocated and not freed; +: since tracing began"},
	[PROC_WAIT] = {"WAIT", 7, false, 1,
		       "share of the time in synchronising calls, summed over all threads"},
	[PROC_ERRORS] = {"ERR/S", 5, false, 1, "calls that failed"},
	[PROC_COST] = {"TRACING", 7, false, 4, "tracing overhead, as a share of one thread's time"},
};

enum { FN_CALLS, FN_MEAN, FN_LONGEST, FN_TIME, FN_ERRORS, FN_ALL, FN_CNT };
static const struct view_col fn_cols[FN_CNT] = {
	[FN_CALLS] = {"CALLS/S", 9, false, 0, "calls"},
	[FN_MEAN] = {"MEAN", 9, false, 0, "mean duration in the interval"},
	[FN_LONGEST] = {"LONGEST", 9, false, 0, "longest duration since tracing began"},
	[FN_TIME] = {"TIME", 7, false, 1,
		     "share of the time in this function, summed over all threads"},
	[FN_ERRORS] = {"ERR/S", 5, false, 1, "calls that failed"},
	[FN_ALL] = {"ALL", 11, false, 2, "calls since tracing began"},
};

_Static_assert((int)PROC_CNT <= VIEW_COLS && (int)FN_CNT <= VIEW_COLS, "VIEW_COLS has to grow");

const struct view_order procs_order = {.col = PROC_CALLS};
const struct view_order fns_order = {.col = FN_CALLS};

static double seconds_of(const struct top_stats *r)
{
	return r->to_ns > r->from_ns ? (r->to_ns - r->from_ns) / 1e9 : 1;
}

static void put_rate(struct view_line *l, unsigned col, uint64_t cnt, double seconds)
{
	double rate = cnt / seconds;

	l->value[col] = rate;
	if (rate > 0 && rate < 9.95)
		snprintf(l->cell[col], CELL_SZ, "%.1f", rate);
	else
		human_count(l->cell[col], rate + 0.5);
}

static void put_share(struct view_line *l, unsigned col, uint64_t ns, double seconds)
{
	l->value[col] = ns;
	human_share(l->cell[col], ns, seconds * 1e9);
}

static void put_time(struct view_line *l, unsigned col, double ns)
{
	l->value[col] = ns;
	human_time(l->cell[col], ns);
}

static void add_plus(char cell[CELL_SZ], bool wanted)
{
	size_t n = strlen(cell);

	if (wanted && n + 1 < CELL_SZ)
		strcpy(cell + n, "+");
}

static struct view_line *add_line(struct view *s, const char *name, const void *key)
{
	struct view_line *grown = s->lines, *l;

	/* At each power of two the array is full. */
	if (!(s->cnt & (s->cnt - 1))) {
		grown = reallocarray(grown, s->cnt ? 2 * s->cnt : 1, sizeof(*grown));
		if (!grown)
			return NULL;
		s->lines = grown;
	}
	l = &s->lines[s->cnt++];
	memset(l, 0, sizeof(*l));
	l->name = name;
	l->key = key;
	return l;
}

static void fill_proc(struct view_line *l, const struct top_row *row, double seconds)
{
	const struct top_sums sums = row->diff;

	l->is_over = row->ended;
	l->failed = sums.errors;
	l->value[PROC_PID] = row->pid;
	snprintf(l->cell[PROC_PID], CELL_SZ, "%u", row->pid);
	snprintf(l->cell[PROC_OWNER], CELL_SZ, "%.*s", CELL_SZ - 1, row->owner);
	put_rate(l, PROC_CALLS, sums.calls, seconds);
	put_rate(l, PROC_LAUNCHES, sums.launches, seconds);
	l->value[PROC_COPIED] = sums.copied / seconds;
	human_bytes(l->cell[PROC_COPIED], sums.copied / seconds);
	add_plus(l->cell[PROC_COPIED], row->unsized);
	l->value[PROC_MEMORY] = row->mem.bytes[MEM_DEVICE];
	human_bytes(l->cell[PROC_MEMORY], row->mem.bytes[MEM_DEVICE]);
	add_plus(l->cell[PROC_MEMORY], row->is_late);
	put_share(l, PROC_WAIT, sums.wait_ns, seconds);
	put_rate(l, PROC_ERRORS, sums.errors, seconds);
	put_share(l, PROC_COST, sums.cost_ns, seconds);
	if (!row_knows_cost(row))
		strcpy(l->cell[PROC_COST], "-");
}

static void fill_fn(struct view_line *l, const struct top_fn *f, double seconds)
{
	const struct metrics_fn *diff = &f->diff;

	l->failed = diff->errors;
	put_rate(l, FN_CALLS, diff->calls, seconds);
	if (diff->timed)
		put_time(l, FN_MEAN, (double)diff->total_ns / diff->timed);
	if (f->now.timed)
		put_time(l, FN_LONGEST, f->now.max_ns);
	put_share(l, FN_TIME, diff->total_ns, seconds);
	put_rate(l, FN_ERRORS, diff->errors, seconds);
	l->value[FN_ALL] = f->now.calls;
	human_count(l->cell[FN_ALL], f->now.calls);
}

struct sort_ctx {
	const struct view *s;
	struct view_order order;
};

static int compare(const void *a, const void *b, void *ctx)
{
	const struct view_line *x = a, *y = b;
	const struct sort_ctx *by = ctx;
	unsigned col = by->order.col;
	int c;

	if (col >= by->s->col_cnt)
		c = strcmp(x->name, y->name);
	else if (by->s->cols[col].is_text)
		c = strcmp(x->cell[col], y->cell[col]);
	else
		c = (x->value[col] < y->value[col]) - (x->value[col] > y->value[col]);
	if (by->order.reversed)
		c = -c;
	/* A stable order. */
	return c ?: strcmp(x->name, y->name) ?: (x->value[0] > y->value[0]) - (x->value[0] < y->value[0]);
}

static void sort(struct view *s, struct view_order order)
{
	struct sort_ctx by = {s, order};

	if (s->cnt)
		qsort_r(s->lines, s->cnt, sizeof(*s->lines), compare, &by);
}

bool view__of_procs(struct view *s, const struct top_stats *r, struct view_order order)
{
	double seconds = seconds_of(r);
	bool ok = true;

	s->cols = proc_cols;
	s->col_cnt = PROC_CNT;
	s->name_head = "COMMAND";
	s->cnt = 0;
	hash_each (row, &r->all) {
		struct view_line *l;

		if (!row->is_shown || !ok)
			continue;
		l = add_line(s, row->command ?: "", row);
		ok = l != NULL;
		if (ok)
			fill_proc(l, row, seconds);
	}
	sort(s, order);
	return ok;
}

bool view__of_fns(struct view *s, const struct top_stats *r, const struct top_row *row,
		  struct view_order order)
{
	double seconds = seconds_of(r);
	bool ok = true;

	s->cols = fn_cols;
	s->col_cnt = FN_CNT;
	s->name_head = "FUNCTION";
	s->cnt = 0;
	for (unsigned i = 0; i < row->fn_cnt && ok; i++) {
		struct view_line *l = add_line(s, row->fns[i].fn->symbol, row->fns[i].fn);

		ok = l != NULL;
		if (ok)
			fill_fn(l, &row->fns[i], seconds);
	}
	sort(s, order);
	return ok;
}

void view__free(struct view *s)
{
	free(s->lines);
	*s = (struct view){0};
}

void view_sums(const struct top_stats *r, char *text, size_t size)
{
	char procs[CELL_SZ], calls[CELL_SZ], launches[CELL_SZ], copied[CELL_SZ], held[CELL_SZ],
		errors[CELL_SZ], cost[CELL_SZ];
	unsigned cnt = r->shown_cnt;
	double seconds = seconds_of(r);
	uint64_t device_bytes;
	struct top_sums sum = stats__sums(r, &device_bytes);

	human_count(procs, cnt);
	human_count(calls, sum.calls);
	human_count(launches, sum.launches);
	human_bytes(copied, sum.copied);
	human_bytes(held, device_bytes);
	human_count(errors, sum.errors);
	human_share(cost, sum.cost_ns, seconds * 1e9);
	snprintf(text, size,
		 "%.2f s: %s process%s, %s call%s, %s launch%s, %s copied, %s held, %s error%s, "
		 "tracing took %s of a processor",
		 seconds, procs, plural_es(cnt), calls, plural(sum.calls), launches,
		 plural_es(sum.launches), copied, held, errors, plural(sum.errors), cost);
}

bool view_lost(const struct top_stats *r, char *text, size_t size)
{
	const char *not_traced = r->session->t.not_traced;
	char unlisted[128] = "";

	if (r->unlisted)
		snprintf(unlisted, sizeof(unlisted),
			 "; TABLE FULL: %llu processes or functions missing",
			 (unsigned long long)r->unlisted);
	snprintf(text, size, "%s%s%s%s%s",
		 *r->lost_what ? "LOST since the start: " : "nothing was lost", r->lost_what,
		 unlisted, *not_traced ? "; not traced: " : "", not_traced);
	return *r->lost_what || r->unlisted;
}
