/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A loop that does not wait for the GPU in each step: one segment has all steps, and the same
 * launches repeat in it. The period is the distance at which an earlier launch best predicts a
 * launch; of equally good ones, the shortest. Layers of a model repeat too, but not at their ends:
 * so the distance of a whole step predicts better.
 */
#include "iter_priv.h"
#include "util/plural.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>

#define GRAM	   4 /* consecutive launches that must match */
#define CANDIDATES 64
#define GOOD	   0.9
#define REPEATS	   3

struct gap {
	uint32_t len, cnt;
};

static int by_len(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ASCENDING(x, y);
}

static int by_cnt(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return DESCENDING(x->cnt, y->cnt) ?: ASCENDING(x->len, y->len);
}

/* Distances between a launch (with its successors) and its next occurrence. */
static unsigned distances(const struct it_step *s, unsigned n, uint32_t *out)
{
	uint32_t *last = calloc(n, sizeof(*last)), at;
	struct keys grams = {0};
	unsigned cnt = 0;
	uint64_t key;

	for (unsigned i = 0; last && i + GRAM <= n; i++) {
		key = 1;
		for (unsigned g = 0; g < GRAM; g++)
			key = key * 0x9e3779b97f4a7c15ull + s[i + g].kernel;
		at = keys_get(&grams, key, KEYS_NONE, MEMLIMIT_SEGMENTS);
		if (at == KEYS_NONE)
			break;
		if (last[at])
			out[cnt++] = i + 1 - last[at];
		last[at] = i + 1;
	}
	keys__free(&grams);
	free(last);
	return cnt;
}

static double predicts(const struct it_step *s, unsigned n, unsigned p)
{
	unsigned hits = 0;

	for (unsigned i = 0; i + p < n; i++)
		hits += s[i].kernel == s[i + p].kernel;
	return ratio_of(hits, n - p);
}

static unsigned find_period(const struct it_step *s, unsigned n)
{
	uint32_t *all = calloc(n + 1, sizeof(*all));
	struct gap *gaps = calloc(n + 1, sizeof(*gaps));
	double hits[CANDIDATES], best = GOOD;
	unsigned cnt, gap_cnt = 0, period = 0;

	if (!all || !gaps)
		goto out;
	cnt = distances(s, n, all);
	qsort(all, cnt, sizeof(*all), by_len);
	for (unsigned i = 0; i < cnt; i++) {
		if (!gap_cnt || gaps[gap_cnt - 1].len != all[i])
			gaps[gap_cnt++].len = all[i];
		gaps[gap_cnt - 1].cnt++;
	}
	qsort(gaps, gap_cnt, sizeof(*gaps), by_cnt);
	gap_cnt = gap_cnt < CANDIDATES ? gap_cnt : CANDIDATES;
	for (unsigned i = 0; i < gap_cnt; i++) {
		hits[i] = gaps[i].len * REPEATS <= n ? predicts(s, n, gaps[i].len) : 0;
		best = hits[i] > best ? hits[i] : best;
	}
	for (unsigned i = 0; i < gap_cnt; i++)
		if (hits[i] >= best - 0.01 && hits[i] >= GOOD && (!period || gaps[i].len < period))
			period = gaps[i].len;
out:
	free(all);
	free(gaps);
	return period;
}

/* Start of the loop: the first launch from which a whole period repeats. */
static unsigned find_start(const struct it_step *s, unsigned n, unsigned p)
{
	unsigned len = 0, i;

	for (i = 0; i + p < n && len < p; i++)
		len = s[i].kernel == s[i + p].kernel ? len + 1 : 0;
	return i - len;
}

static void add_period(struct iter *it, const struct it_step *s, unsigned p, uint64_t end_ns)
{
	struct it_iter *iter = iter_add(it);

	if (!iter)
		return;
	*iter = (struct it_iter){.begin_ns = s[0].start_ns, .end_ns = end_ns, .kernels = p};
	for (unsigned i = 0; i < p; i++)
		iter->sums.launch_ns += s[i].dur_ns;
	iter->sums.calls = p;
	iter->sums.call_ns = iter->sums.launch_ns;
}

uint64_t iter_find_periods(struct iter *it, uint64_t better_than)
{
	const struct it_step *s = it->longest ? it->longest->longest : NULL;
	unsigned n = s ? it->longest->longest_cnt : 0, p, start, cnt;

	p = n > better_than ? find_period(s, n) : 0;
	start = p ? find_start(s, n, p) : 0;
	cnt = p ? (n - start) / p : 0;
	if (cnt < REPEATS || (uint64_t)cnt * p <= better_than)
		return 0;
	it->cnt = 0;
	for (unsigned i = start; i + p <= n; i += p) {
		const struct it_step *last = &s[i + p - 1];

		add_period(it, &s[i], p,
			   i + 2 * p <= n ? s[i + p].start_ns : last->start_ns + last->dur_ns);
	}
	it->round_cnt = 1;
	it->res.pid = it->longest->pid;
	it->res.tid = it->longest->tid;
	it->res.confidence = 0.8;
	it->sample_cnt = 0;
	it->longest_sample = calloc(p, sizeof(*it->longest_sample));
	for (unsigned i = 0; it->longest_sample && i < p; i++)
		it->longest_sample[it->sample_cnt++] = s[start + i].kernel;
	it->sample = it->longest_sample;
	snprintf(
		it->why, sizeof(it->why),
		"thread %u repeats the same %u kernel%s without waiting for the GPU in between%s; calls and times "
		"include only launches",
		it->res.tid, p, plural(p),
		n == IT_STEPS_MAX ? " (seen in the first 262,144 launches)" : "");
	return (uint64_t)cnt * p;
}
