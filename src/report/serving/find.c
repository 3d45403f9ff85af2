/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the serving thread; the tokens' dimension of its products, which is constant within a pass
 * and changes from pass to pass; and prefill steps, which have more tokens than sequences.
 */
#include "serving_priv.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Minimum confidence in the tokens' dimension. Training reaches about 0.6: a third of its products
 * has the tokens as inner dimension. */
#define AXIS_SURE 0.8
/* Limit of threads that are tried one by one. */
#define JOINS_MAX 32
/* Minimum share of steps whose ranges name the phase. */
#define MARKED 0.9

const char *const serving_engine_names[ENGINE_CNT] = {
#define ENGINE(ID, name, file, kernel) [ENGINE_##ID] = name,
#include "engines.def"
};

const char *serving_phase_name(enum serving_phase p)
{
	static const char *const names[PHASE_CNT] = {"unknown", "prefill", "decode"};

	return names[p];
}

/* Without products, pieces with few launches are not steps (sampling, copies). */
static uint32_t launches_of_a_step(const struct serving_thread *t)
{
	uint64_t *v = calloc(t->cnt + 1, sizeof(*v)), usual = 0;

	for (unsigned i = 0; v && i < t->cnt; i++)
		v[i] = t->steps[i].launches;
	if (v && t->cnt) {
		sort_values(v, t->cnt);
		usual = sorted_percentile(v, t->cnt, 0.5);
	}
	free(v);
	return usual / 4;
}

static void keep_steps(struct serving_thread *t)
{
	uint32_t least = t->product_cnt ? 0 : launches_of_a_step(t);
	unsigned n = 0;

	for (unsigned i = 0; i < t->cnt; i++) {
		struct serving_step *x = &t->steps[i];

		if (x->graphs || x->products || (!t->product_cnt && x->launches >= least))
			t->steps[n++] = *x;
	}
	t->cnt = n;
}

static void find_main(struct serving *s)
{
	unsigned most = 0;
	bool has_products = false;

	for (unsigned i = 0; i < s->thread_keys.cnt && i < s->thread_cap; i++) {
		struct serving_thread *t = &s->threads[i];

		keep_steps(t);
		if (!t->cnt || (has_products && !t->product_cnt))
			continue;
		if (t->cnt <= most && (has_products || !t->product_cnt))
			continue;
		s->main = i;
		most = t->cnt;
		has_products = t->product_cnt;
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct serving_step *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns);
}

/* Counts steps that begin before the previous one has ended; steps must be sorted. */
static unsigned overlaps(const struct serving_step *steps, unsigned cnt)
{
	unsigned n = 0;

	for (unsigned i = 1; i < cnt; i++)
		n += steps[i].begin_ns < steps[i - 1].end_ns;
	return n;
}

/* Adds b's totals to a, which has its steps. */
static void join(struct serving_thread *a, struct serving_thread *b)
{
	for (int i = 0; i < AXIS_CNT; i++) {
		a->same[i] += b->same[i];
		a->changed[i] += b->changed[i];
	}
	a->pairs += b->pairs;
	a->product_cnt += b->product_cnt;
	a->weight_cnt += b->weight_cnt;
	a->weight_bytes += b->weight_bytes;
	b->is_joined = true;
	b->cnt = 0;
}

static bool may_join(const struct serving_thread *t, const struct serving_thread *u)
{
	return u != t && u->pid == t->pid && u->cnt && !u->product_cnt == !t->product_cnt;
}

/* Joins threads of t's process in this range, if they alternate with t and each other. All or
 * none. */
static bool join_range(struct serving *s, struct serving_thread *t, unsigned from, unsigned to)
{
	unsigned all = t->cnt, n = t->cnt;
	struct serving_step *steps;

	for (unsigned i = from; i < to; i++)
		all += may_join(t, &s->threads[i]) ? s->threads[i].cnt : 0;
	steps = all > n ? memlimit_new(MEMLIMIT_SEGMENTS, all * sizeof(*steps)) : NULL;
	if (!steps)
		return all == n;
	memcpy(steps, t->steps, n * sizeof(*steps));
	for (unsigned i = from; i < to; i++) {
		const struct serving_thread *u = &s->threads[i];

		if (!may_join(t, u))
			continue;
		memcpy(steps + n, u->steps, u->cnt * sizeof(*steps));
		n += u->cnt;
	}
	qsort(steps, all, sizeof(*steps), by_begin);
	if (overlaps(steps, all) * 20 > all) {
		memlimit_free(steps);
		return false;
	}
	memlimit_free(t->steps);
	t->steps = steps;
	t->cap = t->cnt = all;
	for (unsigned i = from; i < to; i++)
		if (may_join(t, &s->threads[i]))
			join(t, &s->threads[i]);
	return true;
}

/* An engine may have a thread for each round, a server one for each request: threads of a process
 * that alternate are one engine. Tries all of them, then the first ones singly. */
static void join_threads(struct serving *s)
{
	unsigned n = s->thread_keys.cnt < s->thread_cap ? s->thread_keys.cnt : s->thread_cap;
	struct serving_thread *t = serving_main(s);
	uint64_t last_ns;

	if (!t || !t->cnt)
		return;
	if (!join_range(s, t, 0, n))
		for (unsigned i = 0; i < n && i < JOINS_MAX; i++)
			join_range(s, t, i, i + 1);
	last_ns = t->steps[0].end_ns;
	for (unsigned i = 1; i < t->cnt; i++) {
		struct serving_step *x = &t->steps[i];

		x->between_ns = x->begin_ns > last_ns ? x->begin_ns - last_ns : 0;
		last_ns = x->end_ns;
	}
}

static void find_axis(struct serving *s, const struct serving_thread *t)
{
	for (int a = 0; a < AXIS_CNT; a++) {
		/* A constant dimension may be any size of the model. */
		double confidence = ratio_of(t->same[a], t->pairs) * (t->changed[a] ? 1 : 0.6);

		if (confidence <= s->axis_confidence)
			continue;
		s->axis = a;
		s->axis_confidence = confidence;
	}
}

/* The weights that make the logits: the last ones of most eager steps. */
static uint32_t find_head(const struct serving_thread *t)
{
	struct vote v = {0};

	for (unsigned i = 0; i < t->cnt; i++)
		if (t->steps[i].products > 1)
			vote_add(&v, t->steps[i].head);
	return v.value;
}

/* Sets the step's tokens, and in batch the number of sequences with logits; 0: not known. */
static void set_tokens(const struct serving *s, struct serving_step *x, uint32_t head)
{
	bool has_head = x->products && x->head == head;

	x->tokens = x->graphs ? x->padded_of[s->axis] : x->tokens_of[s->axis];
	x->at_most = x->graphs;
	if (!x->graphs)
		x->batch = has_head && x->products > 1 ? x->rows_of[s->axis] : 0;
	else
		x->batch = x->products ? x->rows_of[s->axis] : x->padded_rows_of[s->axis];
}

static int by_size(const void *a, const void *b)
{
	const struct size_row *x = a, *y = b;

	return ASCENDING(x->size, y->size);
}

/* Finds the sizes that graphs were captured for. */
static void find_sizes(struct serving *s, const struct serving_thread *t)
{
	for (unsigned i = 0, n; i < t->cnt; i++) {
		uint32_t size = t->steps[i].padded_of[s->axis];

		if (!t->steps[i].graphs || !size)
			continue;
		for (n = 0; n < s->size_cnt && s->sizes[n].size != size;)
			n++;
		if (n == SERVING_PADS_MAX)
			continue;
		s->size_cnt += n == s->size_cnt;
		s->sizes[n].size = size;
		s->sizes[n].cnt++;
	}
	qsort(s->sizes, s->size_cnt, sizeof(*s->sizes), by_size);
}

static uint32_t size_for(const struct serving *s, uint32_t rows)
{
	for (unsigned i = 0; i < s->size_cnt; i++)
		if (s->sizes[i].size >= rows)
			return s->sizes[i].size;
	return 0;
}

static bool by_marks(struct serving *s, struct serving_thread *t)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < t->cnt; i++)
		cnt += t->steps[i].mark != PHASE_UNKNOWN;
	if (cnt < MARKED * t->cnt)
		return false;
	for (unsigned i = 0; i < t->cnt; i++)
		t->steps[i].phase = t->steps[i].mark;
	s->phase_by = "ranges";
	s->phase_confidence = ratio_of(cnt, t->cnt);
	return true;
}

/* For a graph captured before the trace, only the sequences are known. */
static bool is_old_replay(const struct serving_step *x)
{
	return x->graphs && !x->tokens && x->batch;
}

/* Most steps decode: takes the most frequent number of graphs. */
static void find_old_graphs(struct serving *s, const struct serving_thread *t)
{
	struct vote v = {0};

	for (unsigned i = 0; i < t->cnt; i++)
		if (is_old_replay(&t->steps[i]))
			vote_add(&v, t->steps[i].graphs);
	s->old_graphs = v.value;
}

/* A graph of the smallest size that fits its sequences ran one token for each. */
static enum serving_phase phase_by_rows(const struct serving *s, const struct serving_step *x)
{
	if (is_old_replay(x) && x->graphs == s->old_graphs)
		return PHASE_DECODE;
	if (!x->tokens)
		return PHASE_UNKNOWN;
	if (!x->batch)
		return x->graphs ? PHASE_UNKNOWN : PHASE_PREFILL; /* without logits */
	if (x->graphs && x->products)
		return size_for(s, x->batch) == x->tokens ? PHASE_DECODE : PHASE_PREFILL;
	return x->tokens > x->batch ? PHASE_PREFILL : PHASE_DECODE;
}

/* If the last product makes logits only for the last token of each sequence, it has one row per
 * sequence: fewer rows than tokens. */
static bool by_rows(struct serving *s, struct serving_thread *t)
{
	unsigned fewer = 0;

	for (unsigned i = 0; i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];

		fewer += x->batch && x->batch < x->tokens && !(x->graphs && x->products);
	}
	if (!fewer)
		return false;
	find_old_graphs(s, t);
	for (unsigned i = 0; i < t->cnt; i++)
		t->steps[i].phase = phase_by_rows(s, &t->steps[i]);
	s->phase_by = "logits";
	/* Prefill may replay as many graphs as decoding, if a graph holds a part of the model. */
	s->phase_confidence = s->axis_confidence * (!s->old_graphs	 ? 0.95
						    : s->old_graphs == 1 ? 0.8
									 : 0.6);
	return true;
}

/* More tokens than in the previous step: a prompt was added. Graphs have fixed sizes, so only steps
 * of one kind are compared. */
static bool grew(const struct serving_thread *t, unsigned i)
{
	const struct serving_step *x = &t->steps[i], *before = i ? x - 1 : NULL;

	return before && before->tokens && !before->graphs == !x->graphs &&
	       x->tokens > before->tokens;
}

struct growth {
	uint32_t tokens;
	bool grew, drops;
};

/* Marks steps that may continue a prompt: the next step has at most half as many tokens. After a
 * step with the maximum, which is the engine's limit, further parts may come first. */
static void find_drops(const struct serving_thread *t, struct growth *v)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < t->cnt; i++)
		if (t->steps[i].tokens > most)
			most = t->steps[i].tokens;
	for (unsigned i = t->cnt; i-- > 1;) {
		uint32_t now = t->steps[i - 1].tokens, next = t->steps[i].tokens;

		v[i - 1].drops = next * 2ull <= now || (now == most && v[i].drops);
	}
}

static int by_tokens(const void *a, const void *b)
{
	const struct growth *x = a, *y = b;

	return ASCENDING(x->tokens, y->tokens);
}

/* Finds the number of tokens that best separates steps that grew from the others. */
static void find_threshold(struct serving *s, const struct serving_thread *t)
{
	struct growth *v = calloc(t->cnt + 1, sizeof(*v));
	uint64_t all = 0, cnt = 0, above, best_missed = 0;
	double best = -1, score;
	bool prompt = false, more;

	if (v)
		find_drops(t, v);
	for (unsigned i = 0; v && i < t->cnt; i++) {
		if (!t->steps[i].tokens)
			continue;
		more = grew(t, i);
		prompt = more || !i || (prompt && v[i].drops);
		if (prompt && !more)
			continue;
		v[cnt++] = (struct growth){.tokens = t->steps[i].tokens, .grew = more};
		all += more;
	}
	if (cnt)
		qsort(v, cnt, sizeof(*v), by_tokens);
	above = all;
	for (uint64_t i = 0; i < cnt; i++) {
		above -= v[i].grew;
		if (i + 1 < cnt && v[i + 1].tokens == v[i].tokens)
			continue;
		/* share of grown steps above, plus share of others at or below */
		score = (all ? ratio_of(above, all) : 0) +
			ratio_of(i + 1 - (all - above), cnt - all);
		if (score <= best)
			continue;
		best = score;
		s->threshold = v[i].tokens;
		best_missed = (all - above) + (cnt - all) - (i + 1 - (all - above));
	}
	s->phase_confidence =
		all ? 0.9 * s->axis_confidence * (1 - ratio_of(best_missed, cnt)) : 0.5;
	free(v);
}

static void by_tokens_alone(struct serving *s, struct serving_thread *t)
{
	find_threshold(s, t);
	for (unsigned i = 0; i < t->cnt; i++) {
		struct serving_step *x = &t->steps[i];

		x->batch = 0;
		if (!x->tokens)
			continue;
		x->phase = x->tokens > s->threshold || grew(t, i) ? PHASE_PREFILL : PHASE_DECODE;
	}
	s->phase_by = "tokens";
}

/* In a decode step each sequence has one token. */
static void set_batches(const struct serving *s, struct serving_thread *t)
{
	for (unsigned i = 0; i < t->cnt; i++) {
		struct serving_step *x = &t->steps[i];

		if (x->phase != PHASE_DECODE)
			continue;
		if (x->graphs && x->products && x->batch) {
			x->tokens = x->batch;
			x->at_most = false;
			continue;
		}
		/* Before capturing a graph, an engine runs a step of its size. */
		x->at_most |= !x->batch && x->tokens && size_for(s, x->tokens) == x->tokens;
		x->batch = x->tokens;
	}
}

static void find_phases(struct serving *s, struct serving_thread *t)
{
	uint32_t head = find_head(t);
	bool any = false;

	for (unsigned i = 0; i < t->cnt; i++) {
		set_tokens(s, &t->steps[i], head);
		any |= t->steps[i].tokens != 0;
	}
	find_sizes(s, t);
	if (!by_marks(s, t) && any && !by_rows(s, t))
		by_tokens_alone(s, t);
	if (any)
		set_batches(s, t);
}

static void print_why(struct serving *s, const struct serving_thread *t)
{
	int n = 0;

	s->why[0] = '\0';
	for (int e = 0; e < ENGINE_CNT; e++)
		if (s->engines[e])
			n += snprintf(s->why + n, sizeof(s->why) - n, "%s%s", n ? ", " : "",
				      serving_engine_names[e]);
	if (n)
		n += snprintf(s->why + n, sizeof(s->why) - n, ", by files or kernels; ");
	if (!t->product_cnt)
		snprintf(
			s->why + n, sizeof(s->why) - n,
			"no matrix products were traced, so the tokens of a step are unknown: trace with --detail=normal -e "
			"cublas");
	else
		snprintf(
			s->why + n, sizeof(s->why) - n,
			"%s of the matrix products is the number of tokens (confidence %.0f %%): it is the same in %.0f %% "
			"of consecutive products, and %s",
			s->axis == AXIS_N ? "n" : "m", 100 * s->axis_confidence,
			100 * ratio_of(t->same[s->axis], t->pairs),
			t->changed[s->axis] ? "changes from step to step" : "never changes");
}

void serving_find(struct serving *s)
{
	bool known = false, varies;
	struct serving_thread *t;

	find_main(s);
	join_threads(s);
	t = serving_main(s);
	for (int e = 0; e < ENGINE_CNT; e++)
		known |= s->engines[e];
	if (!t || t->cnt < SERVING_STEPS_MIN) {
		snprintf(s->why, sizeof(s->why),
			 "no thread has %d steps (launches followed by a wait for the GPU)",
			 SERVING_STEPS_MIN);
		if (!s->r->opts.serving)
			s->main = KEYS_NONE;
		return;
	}
	find_axis(s, t);
	varies = t->pairs >= SERVING_STEPS_MIN && t->changed[s->axis] &&
		 s->axis_confidence >= AXIS_SURE;
	s->res.found = varies || known;
	print_why(s, t);
	if (!s->res.found && !s->r->opts.serving) {
		s->main = KEYS_NONE;
		return;
	}
	find_phases(s, t);
}
