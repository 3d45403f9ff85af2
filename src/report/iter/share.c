/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ranks of a job have the same steps: each makes the same collectives in each step. If one of them
 * also waits or launches in every tenth step, its own calls repeat every ten steps. It then gets
 * the steps that most ranks have, by the number of collectives up to the end of each. This needs no
 * common clock.
 */
#include "iter_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOUND 0.95 /* share of the steps that a rank must have, too */

/* A step, by the collectives that the process made before it and up to its end. */
struct share_step {
	uint32_t begin, end;
	unsigned round;
};

static const struct it_thread *thread_of(const struct iter *it, const struct iter_result *res)
{
	const struct it_thread *most = NULL;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++) {
		const struct it_thread *t = &it->threads[i];

		if (t->pid != res->pid)
			continue;
		if (res->count && t->tid == res->tid)
			return t;
		if (iter_has_more(t, t->work, most, most ? most->work : 0))
			most = t;
	}
	return most;
}

/* Returns false if the steps do not end with segments, or some have no collectives. */
static bool make_steps(const struct iter *of, const struct it_thread *t, struct share_step *steps)
{
	unsigned s = 0, first;

	for (unsigned i = 0; i < of->cnt; i++) {
		const struct it_iter *iter = &of->list[i];

		while (s < t->seg_cnt && t->segs[s].begin_ns < iter->begin_ns)
			s++;
		first = s;
		while (s < t->seg_cnt && t->segs[s].end_ns < iter->end_ns)
			s++;
		if (s == t->seg_cnt || t->segs[s].end_ns != iter->end_ns)
			return false;
		steps[i].begin = first ? t->segs[first - 1].colls : 0;
		steps[i].end = t->segs[s].colls;
		steps[i].round = iter->round;
		if (steps[i].end <= steps[i].begin)
			return false;
	}
	return true;
}

/* Makes iterations of the thread's segments. Returns the launches in them. */
static uint64_t take_steps(struct iter *it, const struct it_thread *t,
			   const struct share_step *steps, unsigned cnt)
{
	unsigned s = 0, first, round = UINT32_MAX, end = 0;
	uint64_t work = 0;

	for (unsigned i = 0; i < cnt; i++) {
		while (s < t->seg_cnt && t->segs[s].colls <= steps[i].begin)
			s++;
		first = s;
		while (s < t->seg_cnt && t->segs[s].colls <= steps[i].end)
			s++;
		if (s == first || t->segs[s - 1].colls != steps[i].end)
			continue;
		work += iter_add_segments(it, t, first, s - first,
					  steps[i].round != round || first != end);
		round = steps[i].round;
		end = s;
	}
	return work;
}

/* Whether two processes made about the same number of collectives: one may have been stopped
 * earlier. */
static bool is_same_job(struct iter *it, uint32_t a, uint32_t b)
{
	uint64_t x = iter_colls_of(it, a), y = iter_colls_of(it, b), more = x > y ? x : y;

	return x && y && (x > y ? x - y : y - x) * 100 <= more;
}

static unsigned votes_for(struct iter *it, const struct iter_result *res)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < it->each_cnt; i++)
		cnt += it->each[i].count == res->count &&
		       is_same_job(it, it->each[i].pid, res->pid);
	return cnt;
}

/* The process whose number of steps most ranks have; of two, that with more steps. */
static const struct iter_result *find_model(struct iter *it)
{
	const struct iter_result *best = NULL;
	unsigned votes, most = 0;

	for (unsigned i = 0; i < it->each_cnt; i++) {
		const struct iter_result *res = &it->each[i];

		votes = res->count && iter_colls_of(it, res->pid) ? votes_for(it, res) : 0;
		if (votes < most || !votes || (votes == most && best->count >= res->count))
			continue;
		most = votes;
		best = res;
	}
	return best;
}

static bool is_odd(struct iter *it, const struct iter_result *res, const struct iter_result *model)
{
	return res->count != model->count && is_same_job(it, res->pid, model->pid);
}

/* Stores the steps in the process. Its result is unchanged if it does not have them. */
static void share_with(struct iter *it, struct iter_result *res, const struct share_step *steps,
		       unsigned cnt)
{
	const struct it_thread *t = thread_of(it, res);
	struct iter one = {
		.r = it->r,
		.thread_keys = it->thread_keys,
		.threads = it->threads,
		.thread_cap = it->thread_cap,
		.res = {.pid = res->pid, .tid = t ? t->tid : 0, .confidence = 1},
	};
	uint64_t work = t ? take_steps(&one, t, steps, cnt) : 0;

	if (one.cnt >= FOUND * cnt) {
		iter_measure(&one, work);
		*res = one.res;
	}
	iter_alone_free(&one);
}

/* The same for the result of the whole trace, which is that of one process. */
static void share_whole(struct iter *it, const struct iter *model, const struct share_step *steps)
{
	const struct it_thread *t = thread_of(it, &it->res);
	struct iter_result was = it->res;
	struct it_iter *list = it->list;
	unsigned cnt = it->cnt, cap = it->cap, rounds = it->round_cnt;
	uint64_t work;

	it->list = NULL;
	it->cnt = it->cap = it->round_cnt = 0;
	it->res = (struct iter_result){.pid = was.pid, .tid = t ? t->tid : 0, .confidence = 1};
	work = t ? take_steps(it, t, steps, model->cnt) : 0;
	if (it->cnt < FOUND * model->cnt) {
		memlimit_free(it->list);
		it->list = list;
		it->cnt = cnt;
		it->cap = cap;
		it->round_cnt = rounds;
		it->res = was;
		return;
	}
	memlimit_free(list);
	iter_measure(it, work);
	it->sample = model->longest_sample ? NULL : model->sample;
	it->sample_cnt = it->sample ? model->sample_cnt : 0;
	snprintf(
		it->why, sizeof(it->why),
		"other ranks repeat the same launches between waits for the GPU; thread %u makes the same "
		"collectives in each of these steps",
		it->res.tid);
}

void iter_share(struct iter *it)
{
	const struct iter_result *found = find_model(it);
	struct share_step *steps = NULL;
	struct iter model;
	bool any = false;

	for (unsigned i = 0; found && i < it->each_cnt; i++)
		any |= is_odd(it, &it->each[i], found);
	if (!any)
		return;
	iter_find_alone(it, found->pid, &model);
	steps = calloc(model.cnt + 1, sizeof(*steps));
	if (steps && model.cnt && make_steps(&model, thread_of(it, &model.res), steps)) {
		if (is_odd(it, &it->res, found))
			share_whole(it, &model, steps);
		for (unsigned i = 0; i < it->each_cnt; i++)
			if (is_odd(it, &it->each[i], found))
				share_with(it, &it->each[i], steps, model.cnt);
	}
	free(steps);
	iter_alone_free(&model);
}
