/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The short summary: what to look at first. It uses only the summary's counts; the report has the
 * findings that need more. */
#include "summary_short.h"

#include <stdio.h>

/* Minimum share of the run for one long call. */
#define LONG_CALL 0.2
/* Minimum number of waits after little work, and their minimum share of all waits. */
#define SMALL_WAITS	 20
#define SMALL_WAITS_PART 0.9
/* Minimum overhead that is mentioned. */
#define COST_PART  0.05
#define ADVICE_MAX 3

struct advice {
	char text[ADVICE_MAX][256];
	unsigned cnt;
};

/* The longest call that does not wait for the GPU by its nature. */
static void long_call(const struct short_summary *x, struct advice *a)
{
	const struct fn_row *most = NULL;

	for (size_t i = 0; i < x->v.fn_cnt; i++)
		if (x->v.fns[i].st.top_ns && !x->v.fns[i].st.blocked_ns &&
		    (!most || x->v.fns[i].st.max_ns > most->st.max_ns))
			most = &x->v.fns[i];
	if (!most || (double)most->st.max_ns < LONG_CALL * (double)x->wall_ns)
		return;
	snprintf(a->text[a->cnt++], sizeof(a->text[0]), "one %s took %s, %s of the run, at %s%s",
		 most->name, HUMAN_TIME(most->st.max_ns), HUMAN_SHARE(most->st.max_ns, x->wall_ns),
		 HUMAN_TIME(most->st.max_at_ns > x->info->base_ns
				    ? most->st.max_at_ns - x->info->base_ns
				    : 0),
		 most->st.max_at_ns < x->s->first_launch_ns ? ", before the first launch" : "");
}

static void small_waits(const struct short_summary *x, struct advice *a)
{
	const struct summary *s = x->s;

	if (s->small_wait_cnt < SMALL_WAITS ||
	    (double)s->small_wait_cnt < SMALL_WAITS_PART * (double)s->work_wait_cnt)
		return;
	snprintf(a->text[a->cnt++], sizeof(a->text[0]),
		 "%s of %s waits follow at most 4 launches or copies: submit more before each wait",
		 HUMAN_COUNT(s->small_wait_cnt), HUMAN_COUNT(s->work_wait_cnt));
}

static void costly_trace(const struct short_summary *x, struct advice *a)
{
	const struct trace_end *end = x->end;
	char saved[CELL_SZ], how[160];
	bool low = end->costly_cnt ? end->detail_low_saving_ns > end->costly[0].ns
				   : end->detail_low_saving_ns;

	if (end->cost_share < COST_PART || (!low && !end->costly_cnt))
		return;
	human_share(saved, low ? end->detail_low_saving_ns : end->costly[0].ns, end->cost_ns);
	if (low)
		snprintf(how, sizeof(how), "--detail=low saves %s of that", saved);
	else if (end->costly[0].fn->api == API_TORCH)
		snprintf(how, sizeof(how), "trace without --torch");
	else
		snprintf(how, sizeof(how), "-e '!%s' saves %s of that", end->costly[0].fn->symbol,
			 saved);
	snprintf(a->text[a->cnt++], sizeof(a->text[0]), "tracing overhead %s: %s",
		 HUMAN_SHARE(end->cost_share, 1), how);
}

void short_advice(const struct short_summary *x)
{
	struct advice a = {.cnt = 0};

	if (x->no_advice)
		return;
	long_call(x, &a);
	small_waits(x, &a);
	costly_trace(x, &a);
	for (unsigned i = 0; i < a.cnt; i++) {
		if (!i)
			short_blank(x);
		term_row(x->term, i ? "" : "Look first", "%u. %s", i + 1, a.text[i]);
	}
}
