/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that were counted and not recorded: their sums, and the overhead of all calls. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>

/* Approximate costs of in-process calls, from a loop on the mock driver (docs/measured/calls.md).
 * The in-process library measures the overhead itself; these numbers estimate what a step down
 * saves. */
static const struct attach_cost inject_cost = {
	.record = 45, .count = 40, .entry_record = 40, .entry_count = 15};

int session__open_budget(struct session *s)
{
	struct budget_opts bo = {
		.sources = &s->t.sources,
		.fns = s->t.fns,
		.cost = s->probe != PROBE_UPROBE ? inject_cost : s->t.cost,
		.max_share = s->o->max_overhead,
		.fn = session__event,
		.ctx = s,
	};

	if (!s->o->max_overhead)
		return 0;
	s->budget = budget__new(&bo);
	return s->budget ? 0 : -ENOMEM;
}

static void add_count(void *ctx, unsigned source, const struct ct_count_key *key,
		      const struct ct_count *c)
{
	struct session *s = ctx;
	struct trace_count *sum = &s->counts[key->func_id];

	if (key->func_id >= CT_MAX_FUNCS || !fnset__fn(s->t.fns, key->func_id))
		return;
	sum->fn = fnset__fn(s->t.fns, key->func_id);
	sum->calls += ct_count_calls(c);
	sum->errors += c->errors;
	sum->entered += c->entered;
	sum->unfinished += c->unfinished;
	sum->abandoned += c->abandoned;
	sum->total_ns += c->total_ns;
	if (c->max_ns > sum->max_ns)
		sum->max_ns = c->max_ns;
}

void session__count_exit(struct session *s, pid_t pid, uint64_t generation)
{
	const struct count_reader r = {.count = add_count, .ctx = s};

	if (s->o->count.cnt || s->o->max_overhead)
		sources__take_counts(&s->t.sources, pid, generation, &r);
}

static int by_calls(const void *a, const void *b)
{
	const struct trace_count *x = a, *y = b;
	uint64_t x_cnt = x->calls + x->entered, y_cnt = y->calls + y->entered;

	if (x_cnt != y_cnt)
		return x_cnt < y_cnt ? 1 : -1;
	return (x->fn < y->fn) - (x->fn > y->fn);
}

/* Moves functions that were counted to the front. */
static void list_counts(struct session *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CT_MAX_FUNCS; i++)
		if (s->counts[i].fn)
			s->counts[n++] = s->counts[i];
	qsort(s->counts, n, sizeof(s->counts[0]), by_calls);
	s->end.counts = s->counts;
	s->end.count_cnt = n;
}

/* With fewer timed calls the cost cannot be assigned to functions. */
#define TIMED_MIN 16
/* Functions below this share of the cost are not suggested for exclusion. */
#define COSTLY_SHARE 0.05

static void add_costly(struct trace_end *end, const struct api_fn *fn, uint64_t ns)
{
	unsigned at = end->costly_cnt;

	while (at && end->costly[at - 1].ns < ns)
		at--;
	if (at == TRACE_COSTLY_MAX)
		return;
	end->costly_cnt += end->costly_cnt < TRACE_COSTLY_MAX;
	for (unsigned i = end->costly_cnt - 1; i > at; i--)
		end->costly[i] = end->costly[i - 1];
	end->costly[at] = (struct trace_fn_cost){fn, ns};
}

/* Finds the most expensive functions, from the timed calls. Returns the sum over all functions. */
static struct ct_fn_cost find_costly(struct session *s)
{
	struct trace_end *end = &s->end;
	struct ct_fn_cost sum = {0}, c;
	uint64_t all, low = 0;

	for (unsigned id = 0; id < fnset__cnt(s->t.fns); id++) {
		/* With an arbiter, the library makes nearly all calls and does not measure them by
		 * function. */
		attach__fn_cost(s->t.arbiter ? NULL : s->t.att, id, &c);
		for (int k = 0; k < 2; k++) {
			sum.ns[k] += c.ns[k];
			sum.timed[k] += c.timed[k];
		}
		if (c.ns[0] + c.ns[1])
			add_costly(end, fnset__fn(s->t.fns, id), c.ns[0] + c.ns[1]);
		if (!fnset__wanted_at(s->t.fns, DETAIL_LOW, id))
			low += c.ns[0] + c.ns[1];
	}
	all = sum.ns[0] + sum.ns[1];
	if (sum.timed[0] + sum.timed[1] < TIMED_MIN)
		end->costly_cnt = low = 0;
	while (end->costly_cnt && end->costly[end->costly_cnt - 1].ns < all * COSTLY_SHARE)
		end->costly_cnt--;
	for (unsigned i = 0; i < end->costly_cnt; i++)
		end->costly[i].ns = (double)end->costly[i].ns / all * end->cost_ns;
	if (low > all * COSTLY_SHARE)
		end->detail_low_saving_ns = (double)low / all * end->cost_ns;
	return sum;
}

void session__count_end(struct session *s)
{
	const struct count_reader r = {.count = add_count, .ctx = s};
	struct trace_end *end = &s->end;
	uint64_t counted = end->stats[CT_STAT_COUNTED];
	uint64_t records = end->stats[CT_STAT_ENTRIES] - counted;
	struct ct_fn_cost timed;
	double count_ns;

	sources__read_counts(&s->t.sources, &r);
	sources__unfinished_counts(&s->t.sources, &r);
	list_counts(s);
	timed = find_costly(s);
	/* Costs per call: means of the timed calls, or as measured at the start. The total is exact
	 * for the number of calls. */
	end->probe_cost_ns = s->t.cost.record;
	end->count_cost_ns =
		timed.timed[1] ? (double)timed.ns[1] / timed.timed[1] : s->t.cost.count;
	if (!records && counted)
		end->count_cost_ns = (double)end->cost_ns / counted;
	count_ns = counted * end->count_cost_ns;
	if (records)
		end->probe_cost_ns =
			end->cost_ns > count_ns ? (end->cost_ns - count_ns) / records : 0;
}
