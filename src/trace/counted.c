// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls that were counted and not recorded: their sums, and what all of it has cost. */
#include "session.h"

#include "attach/levels.h"

#include <errno.h>
#include <stdlib.h>

int session__open_budget(struct session *s)
{
	struct budget_opts bo = {
		.att = s->t.att,
		.fns = s->t.fns,
		.cost = s->t.cost,
		.max_share = s->o->max_overhead,
		.fn = session__event,
		.ctx = s,
	};

	if (!s->o->max_overhead)
		return 0;
	s->budget = budget__new(&bo);
	return s->budget ? 0 : -ENOMEM;
}

static void add_count(void *ctx, const struct ct_count_key *key, const struct ct_count *c)
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

void session__count_exit(struct session *s, pid_t pid, uint64_t life)
{
	if (!s->o->count.cnt && !s->o->max_overhead)
		return;
	levels__take(s->t.att, pid, life, add_count, s);
	levels__forget_rows(s->t.att, pid, life);
}

static int by_calls(const void *a, const void *b)
{
	const struct trace_count *x = a, *y = b;
	uint64_t x_cnt = x->calls + x->entered, y_cnt = y->calls + y->entered;

	if (x_cnt != y_cnt)
		return x_cnt < y_cnt ? 1 : -1;
	return (x->fn < y->fn) - (x->fn > y->fn);
}

/* Those that were counted to the front. */
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

void session__count_end(struct session *s)
{
	const struct attach_cost *each = &s->t.cost;
	struct trace_end *end = &s->end;
	uint64_t entered = 0, counted = end->stats[CT_STAT_COUNTED], entry_records, records;
	double count_ns;

	levels__read(s->t.att, add_count, s);
	levels__unfinished(s->t.att, add_count, s);
	list_counts(s);
	for (unsigned i = 0; i < end->count_cnt; i++)
		entered += s->counts[i].entered;
	/* What found the table full is in no row of it. */
	if (entered > counted)
		entered = counted;
	entry_records = end->stats[CT_STAT_ENTRY_ONLY] - entered;
	records = end->stats[CT_STAT_ENTRIES] - counted - entry_records;
	count_ns = (counted - entered) * each->count + entered * each->entry_count;
	end->probe_cost_ns = each->record;
	end->count_cost_ns = counted ? count_ns / counted : each->count;
	end->cost_ns = records * each->record + entry_records * each->entry_record + count_ns;
}
