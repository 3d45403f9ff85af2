/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From segments to iterations: selects the thread and the segments of each iteration. */
#include "iter_priv.h"

#include <stdio.h>
#include <string.h>

/* Repetitions that make a run of segments periodic. */
#define REPEATS_MIN 3

/* Returns whether segment i has the known pattern of segment i - k. */
static bool repeats(const struct it_thread *t, unsigned i, unsigned k)
{
	return t->segs[i].pattern != IT_NONE && t->segs[i].pattern == t->segs[i - k].pattern;
}

/* Key of the patterns of k segments from i on, in any order. */
static uint64_t cycle_key(const struct it_thread *t, unsigned i, unsigned k)
{
	uint64_t key = 0;

	for (unsigned n = i; n < i + k; n++)
		key += (t->segs[n].pattern + 1) * 0x9e3779b97f4a7c15ull;
	return key;
}

struct repeat {
	const struct it_thread *t;
	unsigned k;
	uint64_t key;
	uint64_t work;
};

/* The cycle of k segments with the most launches. */
static struct repeat best_cycle(const struct it_thread *t, unsigned k)
{
	struct repeat best = {t, k, 0, 0};
	uint64_t works[64] = {0}, all[64];
	unsigned n = 0, c;

	for (unsigned i = k, len; i < t->seg_cnt; i += len + 1) {
		for (len = 0; i + len < t->seg_cnt && repeats(t, i + len, k);)
			len++;
		if (len < k * (REPEATS_MIN - 1))
			continue;
		all[n] = cycle_key(t, i, k);
		for (c = 0; all[c] != all[n];)
			c++;
		if (c == n && ++n == 64)
			n = 63;
		for (unsigned s = i - k; s < i + len; s++)
			works[c] += t->segs[s].work;
	}
	for (c = 0; c < n; c++)
		if (works[c] > best.work)
			best = (struct repeat){t, k, all[c], works[c]};
	return best;
}

/* One segment per iteration, unless several cover clearly more launches. */
static struct repeat best_of_thread(const struct it_thread *t)
{
	struct repeat best = {.t = t}, f;

	for (unsigned k = 1; k <= IT_PERIOD_MAX && k * REPEATS_MIN <= t->seg_cnt; k++) {
		f = best_cycle(t, k);
		if (f.work * 0.95 > best.work)
			best = f;
	}
	return best;
}

static void sums_add(struct it_sums *a, const struct it_sums *b)
{
	a->calls += b->calls;
	a->htod += b->htod;
	a->dtoh += b->dtoh;
	a->launch_ns += b->launch_ns;
	a->sync_ns += b->sync_ns;
	a->call_ns += b->call_ns;
}

static void sums_sub(struct it_sums *a, const struct it_sums *b)
{
	a->calls -= b->calls;
	a->htod -= b->htod;
	a->dtoh -= b->dtoh;
	a->launch_ns -= b->launch_ns;
	a->sync_ns -= b->sync_ns;
	a->call_ns -= b->call_ns;
}

uint64_t iter_add_segments(struct iter *it, const struct it_thread *t, unsigned i, unsigned k,
			   bool new_round)
{
	struct it_iter *iter = iter_add(it);
	uint64_t work = 0;

	if (!iter)
		return 0;
	*iter = (struct it_iter){.begin_ns = t->segs[i].begin_ns,
				 .end_ns = t->segs[i + k - 1].end_ns};
	for (unsigned n = i; n < i + k; n++) {
		const struct it_seg *s = &t->segs[n];

		sums_add(&iter->sums, &s->all);
		iter->kernels += s->kernels;
		iter->graphs += s->graphs;
		iter->loads |= s->loads;
		work += s->work;
	}
	it->round_cnt += new_round;
	iter->round = it->round_cnt - 1;
	if (new_round)
		sums_sub(&iter->sums, &t->segs[i].before);
	else
		iter->begin_ns = iter[-1].end_ns;
	return work;
}

/* Returns whether the pause is too long to be part of the step. */
static bool long_gap(const struct iter *it, const struct it_seg *s, uint64_t usual)
{
	uint64_t end = it->list[it->cnt - 1].end_ns;

	return s->begin_ns > end && s->begin_ns - end > 20 * usual && s->begin_ns - end > 10000000;
}

static uint64_t usual_time(const struct repeat *f)
{
	uint64_t sum = 0, n = 0;

	for (unsigned i = 0; i < f->t->seg_cnt; i++) {
		const struct it_seg *s = &f->t->segs[i];

		if (f->k == 1 && s->pattern != f->key)
			continue;
		sum += s->end_ns - s->begin_ns;
		n++;
	}
	return n ? sum / n * f->k : 0;
}

static uint64_t work_of_cycle(const struct it_thread *t, unsigned i, unsigned k)
{
	uint64_t work = 0;

	for (unsigned n = i; n < i + k; n++)
		work += t->segs[n].work;
	return work;
}

/* Returns whether these k unique segments may be the first of the next round (the prompt before the
 * tokens). They must have about as many launches. */
static bool may_begin(const struct it_thread *t, unsigned i, unsigned k)
{
	uint64_t first = work_of_cycle(t, i, k), next = work_of_cycle(t, i + k, k);

	return first <= 2 * next && next <= 2 * first;
}

/* Iterations begin with the segment that launches most. */
static unsigned in_phase(const struct it_thread *t, unsigned i, unsigned k)
{
	unsigned best = i;

	for (unsigned n = i; n < i + k; n++)
		if (t->segs[n].work > t->segs[best].work)
			best = n;
	return best;
}

static uint64_t add_runs(struct iter *it, const struct repeat *f)
{
	const struct it_thread *t = f->t;
	uint64_t usual, work = 0;
	unsigned k = f->k, done = 0, len, s;
	struct repeat by_pattern = *f;

	/* cycle_key() of one segment is its pattern in another form */
	if (k == 1)
		for (unsigned i = 0; i < t->pattern_cnt; i++)
			if ((i + 1) * 0x9e3779b97f4a7c15ull == f->key)
				by_pattern.key = i;
	usual = usual_time(&by_pattern);
	for (unsigned i = 0; i + k <= t->seg_cnt;) {
		if (cycle_key(t, i, k) != f->key) {
			i++;
			continue;
		}
		for (len = k; i + len < t->seg_cnt && repeats(t, i + len, k);)
			len++;
		s = in_phase(t, i, k);
		if (s + k > i + len) {
			i += len;
			continue;
		}
		if (s >= done + k && may_begin(t, s - k, k) && s - k >= done)
			s -= k;
		for (unsigned n = s; n + k <= i + len; n += k) {
			bool new_round = n == s;

			if (n != s && long_gap(it, &t->segs[n], usual))
				new_round = true;
			work += iter_add_segments(it, t, n, k, new_round);
			done = n + k;
		}
		i += len;
	}
	return work;
}

static const struct it_pattern *typical(const struct it_thread *t, uint64_t key)
{
	const struct it_pattern *best = NULL;

	for (unsigned i = 0; i < t->pattern_cnt; i++) {
		if ((i + 1) * 0x9e3779b97f4a7c15ull == key)
			return &t->patterns[i];
		if (!best || t->patterns[i].seg_cnt > best->seg_cnt)
			best = &t->patterns[i];
	}
	return best;
}

/* marker, sync, gap: the user chose the cuts. */
static uint64_t add_all(struct iter *it, const struct it_thread *t)
{
	static const char *const cuts[] = {
		[ITER_MARKER] = "each call of the marker begins one",
		[ITER_SYNC] = "each wait after launches ends one",
		[ITER_GAP] = "a gap of the given length (--gap) ends one",
	};
	uint64_t work = 0;

	for (unsigned i = 0; i < t->seg_cnt; i++)
		work += iter_add_segments(it, t, i, 1, !i || it->r->opts.iter != ITER_SYNC);
	it->round_cnt = 1;
	for (unsigned i = 0; i < it->cnt; i++) {
		it->list[i].round = 0;
		/* an iteration lasts until the next marker */
		if (i && it->r->opts.iter == ITER_MARKER)
			it->list[i - 1].end_ns = it->list[i].begin_ns;
	}
	snprintf(it->why, sizeof(it->why), "%s", cuts[it->r->opts.iter]);
	return work;
}

static void print_auto(struct iter *it, const struct repeat *f, uint64_t work)
{
	int n;

	n = snprintf(
		it->why, sizeof(it->why),
		"thread %u repeats the same launches between %s; the iterations have %.1f %% of its launches",
		f->t->tid, f->k == 1 ? "waits for the GPU" : "groups of waits for the GPU",
		100 * ratio_of(work, f->t->work));
	if (f->k > 1)
		n += snprintf(it->why + n, sizeof(it->why) - n, "; %u waits in each", f->k);
	if (it->lost_segs)
		snprintf(it->why + n, sizeof(it->why) - n,
			 "; %llu segments after the first %u of a process are ignored",
			 (unsigned long long)it->lost_segs, MEMLIMIT_SEGMENTS_MAX);
}

uint64_t iter_find_segments(struct iter *it)
{
	bool is_auto = it->r->opts.iter == ITER_AUTO;
	const struct it_pattern *sample;
	struct repeat best = {0}, f;
	uint64_t work;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++) {
		const struct it_thread *t = &it->threads[i];

		if (it->only && t->pid != it->only)
			continue;
		f = is_auto ? best_of_thread(t) : (struct repeat){t, 1, 0, t->work + t->seg_cnt};
		if (iter_has_more(t, f.work, best.t, best.work))
			best = f;
	}
	if (!best.work) {
		snprintf(it->why, sizeof(it->why),
			 "no sequence of launches repeats %u times between waits for the GPU",
			 REPEATS_MIN);
		return 0;
	}
	it->res.pid = best.t->pid;
	it->res.tid = best.t->tid;
	it->res.confidence = 1;
	work = is_auto ? add_runs(it, &best) : add_all(it, best.t);
	if (is_auto)
		print_auto(it, &best, work);
	sample = typical(best.t, best.key);
	if (sample && best.k == 1) {
		it->sample = sample->kernels;
		it->sample_cnt = sample->kernel_cnt;
	}
	return work;
}
