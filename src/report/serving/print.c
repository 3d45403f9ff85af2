/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Serving as text and JSON. */
#include "report/section.h"
#include "serving_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Without the class, as lines are short. Callees keep it: functions of layers have the same
 * name. */
static const char *short_name(const char *function)
{
	const char *dot = strrchr(function, '.');

	return dot && dot[1] ? dot + 1 : function;
}

static const char *pause_text(char buf[SECTION_BUF], const struct pause *p)
{
	if (!p->in)
		snprintf(buf, SECTION_BUF, "after %s, before %s", p->from, p->to);
	else if (!p->to && !p->from)
		snprintf(buf, SECTION_BUF, "in %s", short_name(p->in));
	else
		snprintf(buf, SECTION_BUF, "in %s: %s, then %s", short_name(p->in),
			 p->from ?: "itself", p->to ?: "itself");
	return buf;
}

static const char *digits_text(char buf[SECTION_BUF], int digits, double v)
{
	snprintf(buf, SECTION_BUF, "%.*f", digits, v);
	return buf;
}

static unsigned engine_cnt(const struct serving *s)
{
	unsigned cnt = 0;

	for (int e = 0; e < ENGINE_CNT; e++)
		cnt += s->engines[e];
	return cnt;
}

/* Number i of those that were recognised. */
static const char *engine_name(const struct serving *s, unsigned i)
{
	int e = 0;

	while (e + 1 < ENGINE_CNT && (!s->engines[e] || i--))
		e++;
	return serving_engine_names[e];
}

/* Steps of no kind. */
static uint64_t other_steps(const struct serving *s)
{
	return s->all.cnt - s->res.prefill.cnt - s->res.decode.cnt - s->setup.cnt;
}

static const struct serving_sum *sum_at(const struct serving *s, unsigned i)
{
	const struct serving_sum *const sums[] = {&s->res.prefill, &s->res.decode, &s->setup,
						  other_steps(s) ? &s->all : NULL};

	return i < 4 ? sums[i] : NULL;
}

static const struct serving_sum *token_sum_at(const struct serving *s, unsigned i)
{
	return sum_at(s, i < 2 ? i : i + 1);
}

static const char *sum_name(const struct serving *s, const struct serving_sum *x)
{
	if (x == &s->res.prefill)
		return "prefill";
	if (x == &s->res.decode)
		return "decode";
	if (x == &s->setup)
		return "set-up";
	return other_steps(s) == s->all.cnt ? "steps" : "all";
}

#define SECTION_STATE struct serving
#define SECTION_ROWS  "report/serving/serving.section"
#include "report/section_rows.h"

static void print_steps(const struct serving *s, const struct term *term)
{
	section_print(s->r, &serving_table, s, s, "sums", TABLE_ROWS, term);
	section_print(s->r, &serving_table, s, s, "tokens", TABLE_ROWS, term);
	if (s->setup.cnt)
		term_para(term, "Set-up: steps that loaded code or captured a graph.");
}

static void print_phases(const struct serving *s, const struct term *term)
{
	static const char *const how[] = {"logits", "ranges", "tokens"};
	static const char *const text[] = {
		"prefill has more tokens than sequences, by the rows of the logits product",
		"by the names of NVTX ranges",
		"prefill has more tokens than the previous step, or than decoding steps",
	};

	for (unsigned i = 0; s->phase_by && i < sizeof(how) / sizeof(how[0]); i++)
		if (s->phase_by == how[i])
			term_para(term, "Prefill or decode: %s (confidence %.0f %%).", text[i],
				  100 * s->phase_confidence);
	if (s->old_graphs)
		term_para(term,
			  "Graphs were captured before the trace: a step that replays %" PRIu32
			  ", as most do, counts as decoding.",
			  s->old_graphs);
}

static void print_batches(const struct serving *s, const struct term *term)
{
	uint64_t ns = s->res.last_ns - s->res.first_ns;

	if (s->res.batch_max)
		term_para(term,
			  "Sequences in a decoding step: %" PRIu64 " to %" PRIu64
			  ", median %" PRIu64 "; %s%" PRIu64
			  " tokens generated, %.1f per second.%s",
			  s->batch_min, s->res.batch_max, s->res.batch_median,
			  s->rows_at_most ? "at most " : "", s->rows_made,
			  ratio_of(s->rows_made, ns / 1e9),
			  s->rows_at_most ? " Graphs may have more slots than sequences." : "");
	if (s->requests_min)
		term_para(term,
			  "%" PRIu64 " request%s at least, by growth of the batch. "
			  "A request that starts when another ends is not counted.",
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
	term_para(
		term, "%" PRIu64 " step%s replayed a graph, %" PRIu64 " ran eagerly%s%s.",
		s->replay_cnt, plural(s->replay_cnt), s->all.cnt - s->replay_cnt,
		n ? "; tokens per graph, with replays: "
		  : "; the number of tokens per graph is unknown, because the capture was not recorded",
		sizes);
	if (r->padded_known_cnt)
		term_para(term,
			  "%" PRIu64 " of %" PRIu64
			  " replays had more slots than sequences: %" PRIu64 " slots for %" PRIu64
			  ".",
			  r->padded_cnt, r->padded_known_cnt, r->padded_rows, r->padded_real_rows);
}

static void print_between(const struct serving *s, const struct term *term)
{
	term_para(term, "Between steps: %s (median), %s in total.",
		  HUMAN_TIME(s->between_median_ns), HUMAN_TIME(s->between_ns));
	if (s->pause_cnt)
		term_para(term, "Also %" PRIu64 " long pause%s, %s: probably no requests.",
			  s->pause_cnt, plural(s->pause_cnt), HUMAN_TIME(s->pause_ns));
	section_print(s->r, &serving_between_table, s, s, "functions", 0, term);
}

static void print_memory(const struct serving *s, const struct serving_thread *t,
			 const struct term *term)
{
	if (!s->stay_bytes || !t->weight_cnt)
		return;
	term_para(term,
		  "Memory that stays allocated: %s of weights, in blocks of %s; %s in %" PRIu64
		  " large block%s without weights, probably the cache; %s of other memory.",
		  HUMAN_BYTES(t->weight_bytes), HUMAN_BYTES(s->weights_in_blocks),
		  HUMAN_BYTES(s->kv_bytes), s->kv_cnt, plural(s->kv_cnt),
		  HUMAN_BYTES(s->other_bytes));
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
			  " steps: ranks of the same model, or other engines.",
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
			  "Missing, because of limits: steps %" PRIu64
			  ", calls of other threads %" PRIu64 ", blocks %" PRIu64
			  ", pauses %" PRIu64 ".",
			  s->lost_steps, s->lost_calls, s->lost_blocks, s->lost_pauses);
}
