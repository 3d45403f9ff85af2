/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Totals of the steps, and data for findings. */
#include "serving_priv.h"

#include <stdlib.h>

/* A prefill step blocks others if it takes this many times as long as a decode step. */
#define BLOCKS 4

typedef bool chosen(const struct serving_step *x);

static bool is_any(const struct serving_step *x)
{
	return true;
}

static bool is_prefill(const struct serving_step *x)
{
	return x->phase == PHASE_PREFILL;
}

static bool is_decode(const struct serving_step *x)
{
	return x->phase == PHASE_DECODE;
}

static bool is_setup(const struct serving_step *x)
{
	return x->is_setup;
}

static bool is_usual_prefill(const struct serving_step *x)
{
	return is_prefill(x) && !x->is_setup;
}

static bool is_usual_decode(const struct serving_step *x)
{
	return is_decode(x) && !x->is_setup;
}

static bool is_eager_decode(const struct serving_step *x)
{
	return is_usual_decode(x) && !x->graphs;
}

static bool is_replayed_decode(const struct serving_step *x)
{
	return is_usual_decode(x) && x->graphs;
}

static void sum_up(const struct serving_thread *t, chosen *is, struct serving_sum *sum, uint64_t *v)
{
	for (unsigned i = 0; i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];

		if (!is(x))
			continue;
		v[sum->cnt++] = step_ns(x);
		sum->ns += step_ns(x);
		sum->tokens += x->tokens;
		sum->tokens_cnt += x->tokens != 0;
		sum->call_ns += x->call_ns;
		sum->launch_ns += x->launch_ns;
		sum->sync_ns += x->sync_ns;
		sum->gpu_ns += x->gpu_ns;
		sum->launches += x->launches;
		sum->graphs += x->graphs;
	}
	if (!sum->cnt)
		return;
	sort_values(v, sum->cnt);
	sum->median_ns = sorted_percentile(v, sum->cnt, 0.5);
	sum->p95_ns = sorted_percentile(v, sum->cnt, 0.95);
	sum->max_ns = v[sum->cnt - 1];
}

bool serving_is_pause(const struct serving *s, const struct serving_step *x)
{
	return x->between_ns > 20 * s->all.median_ns && x->between_ns > 10000000;
}

static void sum_between(struct serving *s, const struct serving_thread *t, uint64_t *v)
{
	unsigned n = 0;

	for (unsigned i = 1; i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];

		if (serving_is_pause(s, x)) {
			s->pause_cnt++;
			s->pause_ns += x->between_ns;
			continue;
		}
		v[n++] = x->between_ns;
		s->between_ns += x->between_ns;
		s->res.between_ns += is_usual_decode(&x[-1]) ? x->between_ns : 0;
	}
	if (!n)
		return;
	sort_values(v, n);
	s->between_median_ns = sorted_percentile(v, n, 0.5);
	s->between_p95_ns = sorted_percentile(v, n, 0.95);
}

uint64_t serving_decode_idle(const struct report *r, uint64_t from_ns, uint64_t to_ns)
{
	const struct serving *s = r->an[AN_SERVING];
	const struct serving_thread *t = s ? serving_main(s) : NULL;
	uint64_t all = 0, busy = 0;

	for (unsigned i = 0; t && i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];

		if (x->begin_ns < from_ns || x->end_ns > to_ns)
			continue;
		if (is_usual_decode(x)) {
			all += step_ns(x);
			busy += s->res.has_gpu_times ? x->gpu_ns : x->sync_ns;
		}
		if (i && x[-1].end_ns >= from_ns && is_usual_decode(&x[-1]) &&
		    !serving_is_pause(s, x))
			all += x->between_ns;
	}
	return all > busy ? all - busy : 0;
}

static void sum_batches(struct serving *s, const struct serving_thread *t, uint64_t *v)
{
	uint64_t level = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];

		s->rows_made += x->batch;
		s->rows_at_most |= x->batch && x->at_most;
		if (!is_decode(x) || !x->batch)
			continue;
		v[n++] = x->batch;
		/* a graph may be for more sequences than there were */
		if (x->at_most)
			continue;
		s->requests_min += x->batch > level ? x->batch - level : 0;
		level = x->batch;
	}
	if (!n)
		return;
	sort_values(v, n);
	s->batch_min = v[0];
	s->res.batch_median = sorted_percentile(v, n, 0.5);
	s->res.batch_max = v[n - 1];
}

static void sum_graphs(struct serving *s, const struct serving_thread *t, uint64_t *v)
{
	struct serving_sum eager = {0}, replayed = {0};
	struct serving_result *r = &s->res;

	sum_up(t, is_eager_decode, &eager, v);
	sum_up(t, is_replayed_decode, &replayed, v);
	r->eager_cnt = replayed.cnt ? eager.cnt : 0;
	r->eager_median_ns = eager.median_ns;
	r->replay_median_ns = replayed.median_ns;
	for (unsigned i = 0; i < s->size_cnt; i++)
		r->graph_batch_max = s->sizes[i].size;
	for (unsigned i = 0; i < t->cnt; i++) {
		const struct serving_step *x = &t->steps[i];
		uint32_t padded = x->padded_of[s->axis];

		s->replay_cnt += x->graphs != 0;
		if (!is_usual_decode(x))
			continue;
		if (!x->graphs) {
			if (r->eager_cnt && !r->eager_at_ns)
				r->eager_at_ns = x->begin_ns;
			if (x->batch > r->eager_batch_max)
				r->eager_batch_max = x->batch;
		} else if (padded && !x->at_most) {
			r->padded_known_cnt++;
			r->padded_rows += padded;
			r->padded_real_rows += x->batch;
			r->padded_cnt += padded > x->batch;
			if (padded > x->batch && !r->padded_at_ns)
				r->padded_at_ns = x->begin_ns;
		}
	}
}

/* Adds prefill steps [i, end) between decode steps. */
static void note_prefill(struct serving *s, const struct serving_thread *t, unsigned i,
			 unsigned end)
{
	struct serving_result *r = &s->res;
	const struct serving_step *before = &t->steps[i - 1], *after = &t->steps[end];
	uint64_t usual = r->decode.median_ns, lost, level = before->batch;

	for (unsigned n = i; n < end; n++) {
		uint64_t ns = step_ns(&t->steps[n]);

		if (t->steps[n].is_setup || ns < BLOCKS * usual || !usual)
			continue;
		lost = ns - usual;
		r->block_cnt++;
		r->block_ns += lost;
		r->block_all_ns += ns;
		r->block_gpu_ns += t->steps[n].gpu_ns;
		if (lost <= r->block_max_ns)
			continue;
		r->block_max_ns = lost;
		r->block_at_ns = t->steps[n].begin_ns;
	}
	/* Sequences may have ended one or two steps ago. */
	for (unsigned n = i > 3 ? i - 3 : 0; n < i; n++)
		if (is_decode(&t->steps[n]) && t->steps[n].batch > level)
			level = t->steps[n].batch;
	r->admit_cnt++;
	if (!after->batch || after->at_most || after->batch > level)
		return;
	r->refill_cnt++;
	if (!r->level_min || after->batch < r->level_min)
		r->level_min = after->batch;
	if (after->batch > r->level_max)
		r->level_max = after->batch;
}

static void sum_prefills(struct serving *s, const struct serving_thread *t)
{
	for (unsigned i = 1, end; i < t->cnt; i = end + 1) {
		end = i;
		while (end < t->cnt && is_prefill(&t->steps[end]))
			end++;
		if (end > i && end < t->cnt && is_decode(&t->steps[i - 1]) &&
		    is_decode(&t->steps[end]))
			note_prefill(s, t, i, end);
	}
}

void serving_sum(struct serving *s)
{
	const struct serving_thread *t = serving_main(s);
	uint64_t *v = t ? calloc(t->cnt + 1, sizeof(*v)) : NULL;

	if (!v || !t->cnt)
		goto out;
	s->res.has_gpu_times = s->gpu_cnt;
	s->res.pid = t->pid;
	s->res.first_ns = t->steps[0].begin_ns;
	s->res.last_ns = t->steps[t->cnt - 1].end_ns;
	sum_up(t, is_any, &s->all, v);
	sum_up(t, is_setup, &s->setup, v);
	sum_up(t, is_usual_prefill, &s->res.prefill, v);
	sum_up(t, is_usual_decode, &s->res.decode, v);
	sum_between(s, t, v);
	sum_batches(s, t, v);
	sum_graphs(s, t, v);
	sum_prefills(s, t);
	if (s->failed_alloc_ns >= s->res.first_ns && s->failed_alloc_ns <= s->res.last_ns)
		s->res.failed_alloc_cnt = s->failed_alloc_cnt;
out:
	free(v);
}
