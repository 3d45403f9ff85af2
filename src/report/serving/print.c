/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "serving_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_row(const struct serving *s, struct table *t, const char *name,
		    const struct serving_sum *x)
{
	struct table_row *row;

	if (!x->cnt)
		return;
	row = table__row(t, name);
	human_count(row->cell[0], x->cnt);
	human_time(row->cell[1], x->median_ns);
	human_time(row->cell[2], x->p95_ns);
	if (x->tokens_cnt)
		human_count(row->cell[3], x->tokens);
	snprintf(row->cell[4], CELL_SZ, "%.1f", ratio_of(x->launches, x->cnt));
	human_time(row->cell[5], ratio_of(x->ns - x->sync_ns, x->cnt));
	human_time(row->cell[6], ratio_of(x->sync_ns, x->cnt));
	if (s->res.has_gpu_times)
		human_time(row->cell[7], ratio_of(x->gpu_ns, x->cnt));
}

static void put_token_row(const struct serving *s, struct table *t, const char *name,
			  const struct serving_sum *x)
{
	struct table_row *row;

	if (!x->tokens || x->tokens_cnt != x->cnt)
		return;
	row = table__row(t, name);
	human_time(row->cell[0], ratio_of(x->ns, x->tokens));
	snprintf(row->cell[1], CELL_SZ, "%.2f", ratio_of(x->launches, x->tokens));
	human_time(row->cell[2], ratio_of(x->ns - x->sync_ns, x->tokens));
	human_time(row->cell[3], ratio_of(x->sync_ns, x->tokens));
	if (s->res.has_gpu_times)
		human_time(row->cell[4], ratio_of(x->gpu_ns, x->tokens));
}

static void print_steps(const struct serving *s, const struct term *term)
{
	struct serving_sum rest = s->all;
	struct table t;

	rest.cnt -= s->res.prefill.cnt + s->res.decode.cnt + s->setup.cnt;
	table__init(&t, "steps|median|p95|tokens|launches|host|waits|GPU|each");
	put_row(s, &t, "prefill", &s->res.prefill);
	put_row(s, &t, "decode", &s->res.decode);
	put_row(s, &t, "set-up", &s->setup);
	if (rest.cnt)
		put_row(s, &t, rest.cnt == s->all.cnt ? "steps" : "all", &s->all);
	table__print(&t, term);
	table__init(&t, "time|launches|host|waits|GPU|a token of");
	put_token_row(s, &t, "prefill", &s->res.prefill);
	put_token_row(s, &t, "decode", &s->res.decode);
	if (rest.cnt)
		put_token_row(s, &t, "all", &s->all);
	if (t.row_cnt)
		table__print(&t, term);
	if (s->setup.cnt)
		term_para(term, "Set-up: steps in which code was loaded or a graph captured.");
}

static void print_phases(const struct serving *s, const struct term *term)
{
	static const char *const how[] = {"logits", "ranges", "tokens"};
	static const char *const text[] = {
		"prefill has more tokens than sequences, which the product for the logits tells",
		"by the names of NVTX ranges",
		"prefill has more tokens than the step before, or than steps of decoding have",
	};

	for (unsigned i = 0; s->phase_by && i < sizeof(how) / sizeof(how[0]); i++)
		if (s->phase_by == how[i])
			term_para(term, "Prefill or decode: %s (confidence %.0f %%).", text[i],
				  100 * s->phase_confidence);
	if (s->old_graphs)
		term_para(term,
			  "Graphs were captured before the trace: a step that replays %" PRIu32
			  ", as most do, is taken for decoding.",
			  s->old_graphs);
}

static void print_batches(const struct serving *s, const struct term *term)
{
	uint64_t ns = s->res.last_ns - s->res.first_ns;

	if (s->res.batch_max)
		term_para(term,
			  "Sequences in a step of decoding: %" PRIu64 " to %" PRIu64
			  ", median %" PRIu64 "; %s%" PRIu64 " tokens made, %.1f a second.%s",
			  s->batch_min, s->res.batch_max, s->res.batch_median,
			  s->rows_at_most ? "at most " : "", s->rows_made,
			  ratio_of(s->rows_made, ns / 1e9),
			  s->rows_at_most ? " Graphs may be for more sequences than there were."
					  : "");
	if (s->requests_min)
		term_para(term,
			  "%" PRIu64 " request%s at least: so often the batch grew by one. "
			  "One that comes as another ends is not seen.",
			  s->requests_min, plural(s->requests_min));
	if (s->request_cnt)
		term_para(term, "%" PRIu64 " NVTX range%s called a request.", s->request_cnt,
			  plural(s->request_cnt));
}

static void print_graphs(const struct serving *s, const struct term *term)
{
	const struct serving_result *r = &s->res;
	char sizes[256] = "";
	int n = 0;

	if (!s->replay_cnt)
		return;
	for (unsigned i = 0; i < s->size_cnt && n < (int)sizeof(sizes) - 48; i++)
		n += snprintf(sizes + n, sizeof(sizes) - n, "%s%" PRIu32 " (%" PRIu64 ")",
			      i ? ", " : "", s->sizes[i].size, s->sizes[i].cnt);
	term_para(term, "%" PRIu64 " step%s replayed a graph, %" PRIu64 " ran eagerly%s%s.",
		  s->replay_cnt, plural(s->replay_cnt), s->all.cnt - s->replay_cnt,
		  n ? "; tokens that graphs are for, and replays: "
		    : "; how many tokens the graphs are for is not known, as their capture was "
		      "not seen",
		  sizes);
	if (r->padded_known_cnt)
		term_para(term,
			  "%" PRIu64 " of %" PRIu64
			  " replays were for more sequences than there were: %" PRIu64
			  " places for %" PRIu64 ".",
			  r->padded_cnt, r->padded_known_cnt, r->padded_rows, r->padded_real_rows);
}

/* Without the class, as lines are short. Callees keep it: functions of layers have the same
 * name. */
static const char *short_name(const char *function)
{
	const char *dot = strrchr(function, '.');

	return dot && dot[1] ? dot + 1 : function;
}

static void print_between(const struct serving *s, const struct term *term)
{
	unsigned top = report_rows(term, s->r->opts.top);
	char names[TABLE_ROWS][256], median[CELL_SZ], all[CELL_SZ], pauses[CELL_SZ];
	struct table t;

	human_time(median, s->between_median_ns);
	human_time(all, s->between_ns);
	human_time(pauses, s->pause_ns);
	term_para(term, "Between steps: %s (median), %s in all.", median, all);
	if (s->pause_cnt)
		term_para(term, "Besides, %" PRIu64 " long pause%s, %s: nothing to do, it seems.",
			  s->pause_cnt, plural(s->pause_cnt), pauses);
	if (!s->pause_keys.cnt)
		return;
	table__init(&t, "times|total|longest|between steps the host was");
	for (unsigned i = 0; i < s->pause_keys.cnt && i < top && i < TABLE_ROWS; i++) {
		const struct pause *p = &s->pauses[i];
		struct table_row *row;

		if (!p->in)
			snprintf(names[i], sizeof(names[i]), "after %s, before %s", p->from, p->to);
		else if (!p->to && !p->from)
			snprintf(names[i], sizeof(names[i]), "in %s", short_name(p->in));
		else
			snprintf(names[i], sizeof(names[i]), "in %s: %s, then %s",
				 short_name(p->in), p->from ?: "itself", p->to ?: "itself");
		row = table__row(&t, names[i]);
		human_count(row->cell[0], p->cnt);
		human_time(row->cell[1], p->ns);
		human_time(row->cell[2], p->max_ns);
	}
	table__print(&t, term);
}

static void print_memory(const struct serving *s, const struct serving_thread *t,
			 const struct term *term)
{
	char weights[CELL_SZ], blocks[CELL_SZ], cache[CELL_SZ], other[CELL_SZ];

	if (!s->stay_bytes || !t->weight_cnt)
		return;
	human_bytes(weights, t->weight_bytes);
	human_bytes(blocks, s->weights_in_blocks);
	human_bytes(cache, s->kv_bytes);
	human_bytes(other, s->other_bytes);
	term_para(term,
		  "Memory that stays: %s of weights, in blocks of %s; %s in %" PRIu64
		  " large block%s without weights: the cache, it seems; %s besides.",
		  weights, blocks, cache, s->kv_cnt, plural(s->kv_cnt), other);
}

static void print_others(const struct serving *s, const struct term *term)
{
	uint64_t cnt = 0, steps = 0;

	for (unsigned i = 0; i < s->thread_keys.cnt && i < s->thread_cap; i++) {
		if (i == s->main || s->threads[i].cnt < SERVING_STEPS_MIN)
			continue;
		cnt++;
		steps += s->threads[i].cnt;
	}
	if (cnt)
		term_para(term,
			  "%" PRIu64 " other thread%s %s %" PRIu64
			  " steps, too: ranks of the same model, or other engines.",
			  cnt, plural(cnt), cnt == 1 ? "makes" : "make", steps);
}

void serving_print(const void *a, const struct term *term)
{
	const struct serving *s = a;
	const struct serving_thread *t = serving_main(s);

	if (!t || !t->cnt) {
		if (!s->r->opts.serving)
			return;
		term_section(term, "Serving", "none found");
		term_para(term, "%s.", s->why);
		return;
	}
	term_section(term, "Serving", "%u step%s of the model, by thread %" PRIu32 "%s", t->cnt,
		     plural(t->cnt), t->tid, s->res.found ? "" : "; it does not look like serving");
	term_para(term, "%s.", s->why);
	print_phases(s, term);
	print_steps(s, term);
	print_batches(s, term);
	print_graphs(s, term);
	print_between(s, term);
	print_memory(s, t, term);
	print_others(s, term);
	if (s->lost_steps | s->lost_calls | s->lost_blocks | s->lost_pauses)
		term_para(term,
			  "Left out, beyond the limits: steps %" PRIu64
			  ", calls of other threads %" PRIu64 ", blocks %" PRIu64
			  ", pauses %" PRIu64 ".",
			  s->lost_steps, s->lost_calls, s->lost_blocks, s->lost_pauses);
}
