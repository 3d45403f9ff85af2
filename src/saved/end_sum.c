/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "end_sum.h"

#include <stdlib.h>

#include "model/event.h"

static void add_count(struct trace_count *counts, unsigned *cnt, const struct trace_count *more)
{
	unsigned i = 0;

	while (i < *cnt && counts[i].fn != more->fn)
		i++;
	if (i == *cnt) {
		counts[(*cnt)++] = *more;
		return;
	}
	counts[i].calls += more->calls;
	counts[i].entered += more->entered;
	counts[i].errors += more->errors;
	counts[i].unfinished += more->unfinished;
	counts[i].abandoned += more->abandoned;
	counts[i].total_ns += more->total_ns;
	if (more->max_ns > counts[i].max_ns)
		counts[i].max_ns = more->max_ns;
}

/* Adds the functions of one trace to those of previous ones, one row each. */
static void add_counts(struct end_sum *s, struct trace_end *sum)
{
	unsigned before = s->end.count_cnt, cnt = 0;
	struct trace_count *grown;

	if (!before || !sum->count_cnt) {
		sum->counts = before ? s->end.counts : sum->counts;
		sum->count_cnt += before;
		return;
	}
	grown = calloc(before + sum->count_cnt, sizeof(*grown));
	if (!grown)
		return;
	for (unsigned i = 0; i < before; i++)
		add_count(grown, &cnt, &s->end.counts[i]);
	for (unsigned i = 0; i < sum->count_cnt; i++)
		add_count(grown, &cnt, &sum->counts[i]);
	free(s->counts);
	sum->counts = s->counts = grown;
	sum->count_cnt = cnt;
}

void end_sum__add(struct end_sum *s, const struct trace_end *end, uint64_t base_ns)
{
	struct trace_end sum = *end;

	s->cnt++;
	for (unsigned i = 0; i < TYPE_CNT; i++)
		sum.type_cnt[i] += s->end.type_cnt[i];
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		sum.drops[i] += s->end.drops[i];
	for (unsigned i = 0; i < CT_STAT_CNT; i++)
		sum.stats[i] += s->end.stats[i];
	sum.level_cnt += s->end.level_cnt;
	add_counts(s, &sum);
	sum.event_cnt += s->end.event_cnt;
	sum.call_cnt += s->end.call_cnt;
	sum.bad_record_cnt += s->end.bad_record_cnt;
	sum.lines_lost += s->end.lines_lost;
	sum.cost_ns += s->end.cost_ns;
	if (s->end.max_thread_overhead > sum.max_thread_overhead) {
		sum.max_thread_overhead = s->end.max_thread_overhead;
		sum.max_overhead_tid = s->end.max_overhead_tid;
	}
	/* Overhead by function is shown only for a single trace. */
	if (s->cnt > 1)
		sum.costly_cnt = 0;
	if (s->end.end_ns > sum.end_ns)
		sum.end_ns = s->end.end_ns;
	if (s->cnt > 1 && sum.end_ns > base_ns)
		sum.cost_share = (double)sum.cost_ns / (sum.end_ns - base_ns);
	s->end = sum;
}

void end_sum__free(struct end_sum *s)
{
	free(s->counts);
	s->counts = NULL;
}
