/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes iterations from segments, and measures them. */
#include "iter_priv.h"

#include <stdlib.h>
#include <string.h>

#include "util/order.h"

struct it_iter *iter_add(struct iter *it)
{
	struct it_iter *list =
		grow(it->list, &it->cap, it->cnt + 1, sizeof(*list), MEMLIMIT_SEGMENTS);

	if (!list)
		return NULL;
	it->list = list;
	return &list[it->cnt++];
}

uint64_t iter_value(const struct it_iter *i, enum iter_stat stat)
{
	uint64_t time = i->end_ns > i->begin_ns ? i->end_ns - i->begin_ns : 0;

	switch (stat) {
	case ITS_KERNELS:
		return i->kernels;
	case ITS_GRAPHS:
		return i->graphs;
	case ITS_CALLS:
		return i->sums.calls;
	case ITS_HTOD:
		return i->sums.htod;
	case ITS_DTOH:
		return i->sums.dtoh;
	case ITS_TIME:
		return time;
	case ITS_LAUNCH:
		return i->sums.launch_ns;
	case ITS_SYNC:
		return i->sums.sync_ns;
	default:
		return time > i->sums.call_ns ? time - i->sums.call_ns : 0;
	}
}

static void measure(struct iter *it, enum iter_stat stat, uint64_t *v)
{
	struct iter_dist *d = &it->res.dist[stat];
	unsigned n = 0;

	for (unsigned i = 0; i < it->cnt; i++) {
		if (it->list[i].warmup)
			continue;
		v[n] = iter_value(&it->list[i], stat);
		d->total += v[n++];
	}
	if (!n)
		return;
	sort_values(v, n);
	d->min = v[0];
	d->median = sorted_percentile(v, n, 0.5);
	d->p95 = sorted_percentile(v, n, 0.95);
	d->p99 = sorted_percentile(v, n, 0.99);
	d->max = v[n - 1];
	d->mean = (double)d->total / n;
}

/* Marks the first iterations that load modules or take three times as long as usual. If the first
 * round has such iterations and is short, all of it is warm-up. */
static void mark_warmup(struct iter *it, uint64_t *v)
{
	unsigned sizes[2] = {0}, n = 0;
	uint64_t usual;

	for (unsigned i = 0; i < it->cnt; i++) {
		v[i] = iter_value(&it->list[i], ITS_TIME);
		if (it->list[i].round < 2)
			sizes[it->list[i].round]++;
	}
	sort_values(v, it->cnt);
	usual = sorted_percentile(v, it->cnt, 0.5);
	while (n < it->cnt && (it->list[n].loads || iter_value(&it->list[n], ITS_TIME) > 3 * usual))
		n++;
	if (n && n < sizes[0] && sizes[0] * 2 <= sizes[1])
		n = sizes[0];
	/* something must be left to measure */
	if (n == it->cnt)
		n = it->cnt > 1;
	it->res.warmup = n;
	while (n)
		it->list[--n].warmup = true;
}

/* Launches of all threads of a process; 0: there is no such process. */
static uint64_t work_of(const struct iter *it, uint32_t pid)
{
	uint64_t work = 0;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++)
		work += it->threads[i].pid == pid ? it->threads[i].work : 0;
	return work;
}

/* Launches within the iterations by another thread of the process that does not wait itself: the
 * backward pass has its own thread. */
static uint64_t found_beside(const struct iter *it)
{
	const struct it_thread *t = it->longest;
	uint64_t found = 0;
	unsigned at = 0;

	if (!t || t->pid != it->res.pid || t->tid == it->res.tid)
		return 0;
	for (unsigned i = 0; i < t->longest_cnt; i++) {
		uint64_t ns = t->longest[i].start_ns;

		while (at < it->cnt && it->list[at].end_ns <= ns)
			at++;
		found += at < it->cnt && it->list[at].begin_ns <= ns;
	}
	return found;
}

void iter_measure(struct iter *it, uint64_t found)
{
	struct iter_result *res = &it->res;
	uint64_t *v = calloc(it->cnt + 1, sizeof(*v));

	if (!it->cnt || !v)
		goto out;
	mark_warmup(it, v);
	res->count = it->cnt;
	res->rounds = it->round_cnt;
	res->first_ns = it->list[0].begin_ns;
	res->last_ns = it->list[it->cnt - 1].end_ns;
	res->steady_ns = it->list[res->warmup].begin_ns;
	res->confidence *= ratio_of(found, work_of(it, res->pid)) * (1 - 1.0 / it->cnt);
	for (unsigned i = 0; i < ITS_CNT; i++)
		measure(it, i, v);
out:
	free(v);
}

static void find(struct iter *it)
{
	uint64_t found = iter_find_segments(it);

	found += found_beside(it);
	if (it->r->opts.iter == ITER_AUTO && (!found || found * 2 < work_of(it, it->res.pid)))
		found = iter_find_periods(it, found) ?: found;
	iter_measure(it, found);
}

/* pid 0: of all processes. */
static const struct it_thread *find_longest(const struct iter *it, uint32_t pid)
{
	const struct it_thread *most = NULL;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++) {
		const struct it_thread *t = &it->threads[i];

		if ((!pid || t->pid == pid) &&
		    iter_has_more(t, t->longest_cnt, most, most ? most->longest_cnt : 0))
			most = t;
	}
	return most;
}

void iter_find_alone(const struct iter *all, uint32_t pid, struct iter *alone)
{
	*alone = (struct iter){
		.r = all->r,
		.thread_keys = all->thread_keys,
		.threads = all->threads,
		.thread_cap = all->thread_cap,
		.only = pid,
	};
	alone->longest = find_longest(alone, pid);
	find(alone);
	alone->res.pid = pid;
}

void iter_alone_free(struct iter *alone)
{
	free(alone->longest_sample);
	memlimit_free(alone->list);
}

static void find_of(const struct iter *all, uint32_t pid, struct iter_result *res)
{
	struct iter it;

	iter_find_alone(all, pid, &it);
	*res = it.res;
	iter_alone_free(&it);
}

static bool is_listed(const struct iter *it, uint32_t pid)
{
	for (unsigned i = 0; i < it->each_cnt; i++)
		if (it->each[i].pid == pid)
			return true;
	return false;
}

static void find_each(struct iter *it)
{
	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++) {
		const struct it_thread *t = &it->threads[i];

		if (t->work && !is_listed(it, t->pid) && it->each_cnt < IT_PROCS_MAX)
			it->each[it->each_cnt++].pid = t->pid;
	}
	if (it->each_cnt < 2)
		return;
	for (unsigned i = 0; i < it->each_cnt; i++)
		find_of(it, it->each[i].pid, &it->each[i]);
}

void iter_find(struct iter *it)
{
	it->longest = find_longest(it, 0);
	find(it);
	find_each(it);
	if (it->r->opts.iter == ITER_AUTO)
		iter_share(it);
	it->res.why = it->why;
	iter_count_kernels(it);
}

void iter_of_process(const struct report *r, uint32_t pid, struct iter_result *res)
{
	const struct iter *it = r->an[AN_ITER];

	memset(res, 0, sizeof(*res));
	for (unsigned i = 0; it && i < it->each_cnt; i++)
		if (it->each[i].pid == pid)
			*res = it->each[i];
}

void iter_result(const struct report *r, struct iter_result *res)
{
	const struct iter *it = r->an[AN_ITER];

	memset(res, 0, sizeof(*res));
	if (it)
		*res = it->res;
}

struct iter_span iter_at(const struct report *r, uint64_t i)
{
	const struct it_iter *at = &((const struct iter *)r->an[AN_ITER])->list[i];

	return (struct iter_span){at->begin_ns, at->end_ns, at->warmup, at->round};
}

uint64_t iter_number_at(const struct report *r, uint64_t ns)
{
	const struct iter *it = r->an[AN_ITER];
	uint64_t n = COUNT_LEADING(i, it ? it->cnt : 0, it->list[i].begin_ns <= ns);

	/* the last that begins before it */
	return n && ns < it->list[n - 1].end_ns ? n : 0;
}

unsigned iter_round_at(const struct report *r, uint32_t pid, uint64_t ns)
{
	const struct iter *it = r->an[AN_ITER];
	uint64_t i = it && it->res.pid == pid ? iter_number_at(r, ns) : 0;

	return i ? it->list[i - 1].round + 1 : 0;
}
