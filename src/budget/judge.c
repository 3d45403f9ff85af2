/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compares budgets with the values of reports, of one run or of several. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf_budget.h"
#include "text/not_recorded.h"
#include "util/order.h"
#include "value.h"

/* Single runs: smaller relative differences of a time are noise, as for cudatrace diff. */
#define NOISE_OF_ONE 0.10
/* For equal programs with normal noise, a median of 5 runs exceeds another one by more in 1 of 40
 * comparisons, and in 1 of 800 with 10 runs. */
#define NOISE_DISTANCES 3

/* Describes which calls options excluded from a trace, by its header and its counts. */
struct not_traced {
	char traced[512], counted[1024], entry_only[1024];
	double counted_cnt, filtered_cnt, call_cnt, min_duration_ns;
};

static void read_not_traced(struct values *v, struct not_traced *o)
{
	values__text(v, "overview.traced", o->traced, sizeof(o->traced));
	values__text(v, "overview.counted", o->counted, sizeof(o->counted));
	values__text(v, "overview.entry_only", o->entry_only, sizeof(o->entry_only));
	values__get(v, "chosen[what=counted calls].count", NULL, NULL, &o->counted_cnt);
	values__get(v, "chosen[what=filtered calls].count", NULL, NULL, &o->filtered_cnt);
	values__get(v, "overview.calls", NULL, NULL, &o->call_cnt);
	values__get(v, "overview.min_duration_ns", NULL, NULL, &o->min_duration_ns);
}

/* The option that left out calls of these classes; NULL: none did. */
static const char *not_traced_by(const struct not_traced *o, const char *needs)
{
	const struct not_recorded left = {o->traced,	     o->counted,      o->entry_only,
					  o->counted_cnt,    o->filtered_cnt, o->call_cnt,
					  o->min_duration_ns};

	return not_recorded_by(&left, needs, true);
}

static int add_run(struct budget_runs *r, bool measured, double x)
{
	double *grown = realloc(r->x, (r->cnt + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[r->cnt++] = x;
	r->x = grown;
	r->unmeasured |= !measured;
	return 0;
}

int perf_budget__measure(struct perf_budget *b, enum budget_side side, const char *json, size_t len)
{
	struct not_traced left = {0};
	double complete = 0;
	struct values *v;
	int ret;

	v = values__new(json, len, &ret);
	if (!v)
		return ret;
	values__get(v, "complete", NULL, NULL, &complete);
	b->incomplete[side] |= !complete;
	b->run_cnt[side]++;
	read_not_traced(v, &left);
	for (unsigned i = 0; i < b->cnt && !ret; i++) {
		struct budget_limit *l = &b->limits[i];
		const char *option = not_traced_by(&left, l->row->needs);
		double x = 0;
		bool measured = values__get(v, l->row->path, l->name, l->of, &x);

		l->runs[side].not_traced = l->runs[side].not_traced ?: option;
		/* Calls that an option left out are not measured: their number is at least 0. */
		ret = add_run(&l->runs[side], measured || option, x);
	}
	values__free(v);
	return ret;
}

static int by_value(const void *a, const void *b)
{
	return ASCENDING(*(const double *)a, *(const double *)b);
}

/* Sorts them. */
static double median(double *x, unsigned cnt)
{
	if (cnt)
		qsort(x, cnt, sizeof(*x), by_value);
	return cnt ? (x[(cnt - 1) / 2] + x[cnt / 2]) / 2 : 0;
}

/* The median distance from the median; replaces the values by their distances. */
static double median_distance(double *x, unsigned cnt)
{
	double middle = median(x, cnt);

	for (unsigned i = 0; i < cnt; i++)
		x[i] = fabs(x[i] - middle);
	return median(x, cnt);
}

/* The growth of a median that chance explains. Of the noisier side; 10 % of the old value if one
 * side has a single run. */
static double noise_of(const struct budget_runs runs[BUDGET_SIDE_CNT])
{
	double noise = 0;

	for (int side = 0; side < BUDGET_SIDE_CNT; side++) {
		const struct budget_runs *r = &runs[side];

		if (r->cnt == 1)
			return NOISE_OF_ONE * runs[BUDGET_OLD].value;
		noise = fmax(noise, NOISE_DISTANCES * median_distance(r->x, r->cnt));
	}
	return noise;
}

/* Noise makes times vary, and one slow run proves nothing; a count that one run exceeds is
 * exceeded. */
static bool varies(const struct budget_limit *l)
{
	return l->row->unit == BUDGET_TIME || l->row->unit == BUDGET_SHARE;
}

static void sum_up(const struct budget_limit *l, struct budget_runs *r)
{
	double middle = median(r->x, r->cnt);

	r->value = varies(l) || !r->cnt ? middle : r->x[r->cnt - 1];
}

static enum budget_state state_of(const struct perf_budget *b, const struct budget_limit *l)
{
	const struct budget_runs *old = &l->runs[BUDGET_OLD], *new = &l->runs[BUDGET_NEW];
	bool complete = !b->incomplete[BUDGET_NEW] && !(l->of_change && b->incomplete[BUDGET_OLD]);
	double base = l->of_change ? old->value : 0;

	if (new->unmeasured || !new->cnt || (l->of_change && (old->unmeasured || !old->cnt)))
		return BUDGET_UNMEASURED;
	/* Without what an option left out of the old trace, a change proves nothing. */
	if (new->value - base > (l->of_change ? l->allowed : l->max))
		return l->of_change && old->not_traced ? BUDGET_NOT_TRACED : BUDGET_EXCEEDED;
	if (b->allow_losses || l->row->unit == BUDGET_SHARE)
		return BUDGET_HELD;
	/* The missing part might exceed the limit. */
	if (new->not_traced || (l->of_change && old->not_traced))
		return BUDGET_NOT_TRACED;
	return complete ? BUDGET_HELD : BUDGET_LOSSY;
}

void perf_budget__judge(struct perf_budget *b)
{
	b->broken_cnt = 0;
	for (unsigned i = 0; i < b->cnt; i++) {
		struct budget_limit *l = &b->limits[i];

		for (int side = 0; side < BUDGET_SIDE_CNT; side++)
			sum_up(l, &l->runs[side]);
		if (l->of_change) {
			l->noise = varies(l) ? noise_of(l->runs) : 0;
			l->allowed = l->is_share ? l->max * l->runs[BUDGET_OLD].value : l->max;
			l->allowed = fmax(l->allowed, l->noise);
		}
		l->state = state_of(b, l);
		b->broken_cnt += l->state != BUDGET_HELD;
	}
}
