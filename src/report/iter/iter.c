/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterations: tokens, training steps. Each thread's calls are cut into segments, by default where
 * the thread waits for the GPU after launches. A segment's pattern is the number of launches of
 * each kernel. Two are alike if they share four fifths of their launches, so a kernel that depends
 * on length does not change the pattern.
 */
#include "iter_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/kernels/graphs.h"

#define ALIKE	    0.8
#define THREADS_MAX 65536
#define KERNELS_MAX (1 << 20)
#define GRAPH_KEY   1 /* no address of a name */

static void *iter__new(struct report *r)
{
	struct iter *it = calloc(1, sizeof(*it));

	if (it)
		it->r = r;
	return it;
}

static void iter__free(void *a)
{
	struct iter *it = a;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++) {
		struct it_thread *t = &it->threads[i];

		for (unsigned p = 0; p < t->pattern_cnt; p++)
			memlimit_free(t->patterns[p].kernels);
		memlimit_free(t->patterns);
		memlimit_free(t->steps);
		memlimit_free(t->longest);
		memlimit_free(t->segs);
	}
	memlimit_free(it->threads);
	free(it->longest_sample);
	memlimit_free(it->list);
	memlimit_share_free(&it->seg_rows);
	keys__free(&it->thread_keys);
	keys__free(&it->kernel_keys);
	free(it);
}

const char *iter_kernel_name(const struct iter *it, uint32_t kernel)
{
	uint64_t key = kernel < it->kernel_keys.cnt ? it->kernel_keys.keys[kernel] : 0;

	if (key == GRAPH_KEY)
		return "(a CUDA graph)";
	return key ? (const char *)(uintptr_t)key : "(name unknown)";
}

static struct it_thread *thread_get(struct iter *it, const struct trace_event *ev)
{
	uint32_t i = keys_get(&it->thread_keys, thread_key(ev->pid, ev->tid), THREADS_MAX,
			      MEMLIMIT_THREADS);
	struct it_thread *threads;

	if (i == KEYS_NONE)
		return NULL;
	threads = grow(it->threads, &it->thread_cap, i + 1, sizeof(*threads), MEMLIMIT_THREADS);
	if (!threads) {
		keys__undo(&it->thread_keys, i);
		return NULL;
	}
	it->threads = threads;
	threads[i].pid = ev->pid;
	threads[i].tid = ev->tid;
	return &threads[i];
}

static double likeness(const struct it_sketch *a, const struct it_sketch *b)
{
	uint32_t less = a->total < b->total ? a->total : b->total;
	uint32_t more = a->total < b->total ? b->total : a->total;
	uint64_t both = 0;

	if (less < ALIKE * more)
		return 0;
	for (unsigned i = 0; i < IT_DIMS; i++)
		both += a->n[i] < b->n[i] ? a->n[i] : b->n[i];
	return ratio_of(both, (double)a->total + b->total - both);
}

static void keep_sample(struct it_pattern *p, const struct it_thread *t)
{
	uint32_t *kernels = memlimit_resize(MEMLIMIT_SEGMENTS, p->kernels,
					    (t->step_cnt + 1) * sizeof(*kernels));

	if (!kernels)
		return;
	for (unsigned i = 0; i < t->step_cnt; i++)
		kernels[i] = t->steps[i].kernel;
	p->kernels = kernels;
	p->kernel_cnt = t->step_cnt;
}

/* The pattern of the open segment; a new one if no pattern is alike. */
static uint32_t pattern_of(struct it_thread *t)
{
	struct it_pattern *p;
	unsigned i = t->last_pattern;

	if (i >= t->pattern_cnt || likeness(&t->patterns[i].sketch, &t->sketch) < ALIKE)
		for (i = 0; i < t->pattern_cnt; i++)
			if (likeness(&t->patterns[i].sketch, &t->sketch) >= ALIKE)
				break;
	if (i == t->pattern_cnt) {
		p = i < IT_PATTERNS ? grow(t->patterns, &t->pattern_cap, i + 1, sizeof(*p),
					   MEMLIMIT_SEGMENTS)
				    : NULL;
		if (!p)
			return IT_NONE;
		t->patterns = p;
		t->pattern_cnt++;
		p[i].sketch = t->sketch;
	}
	p = &t->patterns[i];
	p->seg_cnt++;
	/* the first may have been a warm-up */
	if (p->seg_cnt == 1 || p->seg_cnt == 3)
		keep_sample(p, t);
	t->last_pattern = i;
	return i;
}

static void keep_longest(struct it_thread *t)
{
	struct it_step *steps = t->longest;
	unsigned cap = t->longest_cap;

	if (t->step_cnt <= t->longest_cnt)
		return;
	t->longest = t->steps;
	t->longest_cnt = t->step_cnt;
	t->longest_cap = t->step_cap;
	t->steps = steps;
	t->step_cap = cap;
}

static struct it_seg *seg_room(struct iter *it, struct it_thread *t)
{
	struct it_seg *segs;

	if (!memlimit_charge(&it->seg_rows, 1, IT_SEGS_MAX, MEMLIMIT_SEGMENTS))
		return NULL;
	segs = grow(t->segs, &t->seg_cap, t->seg_cnt + 1, sizeof(*segs), MEMLIMIT_SEGMENTS);
	if (!segs)
		memlimit_uncharge(&it->seg_rows, NULL, 1);
	return segs;
}

static void cut(struct iter *it, struct it_thread *t)
{
	uint64_t work = t->cur.work;
	struct it_seg *segs;

	if (t->open && (work || it->r->opts.iter == ITER_MARKER)) {
		t->cur.pattern = work ? pattern_of(t) : IT_NONE;
		t->work += work;
		segs = seg_room(it, t);
		if (segs) {
			t->segs = segs;
			segs[t->seg_cnt++] = t->cur;
		} else {
			it->lost_segs++;
		}
	}
	keep_longest(t);
	t->open = false;
	t->step_cnt = 0;
	memset(&t->cur, 0, sizeof(t->cur));
	memset(&t->sketch, 0, sizeof(t->sketch));
}

static void add_launch(struct iter *it, struct it_thread *t, const struct trace_event *ev,
		       uint64_t key)
{
	uint32_t kernel = keys_get(&it->kernel_keys, key, KERNELS_MAX, MEMLIMIT_KERNELS);
	struct it_step *steps;

	t->cur.all.launch_ns += event_duration_ns(ev);
	t->sketch.n[kernel % IT_DIMS]++;
	t->sketch.total++;
	steps = t->step_cnt < IT_STEPS_MAX ? grow(t->steps, &t->step_cap, t->step_cnt + 1,
						  sizeof(*steps), MEMLIMIT_SEGMENTS)
					   : NULL;
	if (!steps)
		return;
	t->steps = steps;
	steps[t->step_cnt++] = (struct it_step){ev->start_ns, event_duration_ns(ev), kernel};
}

static void add(struct iter *it, struct it_thread *t, const struct trace_event *ev)
{
	struct it_seg *s = &t->cur;
	uint64_t ns = event_duration_ns(ev);

	t->open = true;
	if (!s->begin_ns)
		s->begin_ns = ev->start_ns;
	s->end_ns = ev->end_ns;
	s->all.calls++;
	s->all.call_ns += ns;
	s->all.htod += call_bytes(ev, COPY_DIR_HTOD);
	s->all.dtoh += call_bytes(ev, COPY_DIR_DTOH);
	if (ev->fn->class == CLASS_MODULE && ev->fn->op == OP_LOAD)
		s->loads = true;
	if (call_launches(ev)) {
		s->kernels++;
		s->work++;
		add_launch(it, t, ev, (uintptr_t)ev->launch.kernel);
	} else if (call_launches_graph(ev)) {
		s->graphs++;
		s->work += graphs_kernels_of(it->r, ev) ?: 1;
		add_launch(it, t, ev, GRAPH_KEY);
	} else if (call_blocks(ev)) {
		s->all.sync_ns += ns;
	}
}

/* A wait without launches before it: the segment's own work starts here. */
static void begin_anew(struct it_seg *s)
{
	s->before = s->all;
	s->begin_ns = 0;
	s->loads = false;
}

static bool is_marker(const struct iter *it, const struct trace_event *ev)
{
	const char *marker = it->r->opts.marker;

	return marker && (!strcmp(marker, ev->fn->name) || !strcmp(marker, ev->fn->symbol));
}

static void iter_event(void *a, const struct trace_event *ev)
{
	struct iter *it = a;
	enum iter_mode mode = it->r->opts.iter;
	struct it_thread *t;

	if (!call_was_made(ev) || !call_is_top(ev))
		return;
	t = thread_get(it, ev);
	if (!t)
		return;
	if (mode == ITER_MARKER) {
		if (is_marker(it, ev)) {
			cut(it, t);
			t->is_marked = true;
		}
		if (t->is_marked)
			add(it, t, ev);
		return;
	}
	if (mode == ITER_GAP && t->open && ev->start_ns > t->cur.end_ns &&
	    ev->start_ns - t->cur.end_ns >= it->r->opts.gap_ns)
		cut(it, t);
	add(it, t, ev);
	if (mode == ITER_GAP)
		return;
	if (iter_ends_piece(ev, t->cur.kernels + t->cur.graphs))
		cut(it, t);
	else if (call_blocks(ev))
		begin_anew(&t->cur);
}

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

static void find(struct iter *it)
{
	struct iter_result *res = &it->res;
	uint64_t found = iter_find_segments(it), *v;

	found += found_beside(it);
	if (it->r->opts.iter == ITER_AUTO && (!found || found * 2 < work_of(it, res->pid)))
		found = iter_find_periods(it, found) ?: found;
	v = calloc(it->cnt + 1, sizeof(*v));
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

/* Finds iterations in the calls of one process alone. */
static void find_of(const struct iter *all, uint32_t pid, struct iter_result *res)
{
	struct iter it = {
		.r = all->r,
		.thread_keys = all->thread_keys,
		.threads = all->threads,
		.thread_cap = all->thread_cap,
		.only = pid,
	};

	it.longest = find_longest(&it, pid);
	find(&it);
	*res = it.res;
	res->pid = pid;
	free(it.longest_sample);
	memlimit_free(it.list);
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

static void iter_finish(void *a)
{
	struct iter *it = a;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++)
		cut(it, &it->threads[i]);
	it->longest = find_longest(it, 0);
	find(it);
	it->res.why = it->why;
	find_each(it);
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

	return (struct iter_span){at->begin_ns, at->end_ns, at->warmup};
}

unsigned iter_round_at(const struct report *r, uint32_t pid, uint64_t ns)
{
	const struct iter *it = r->an[AN_ITER];
	unsigned lo = 0, hi = it && it->res.pid == pid ? it->cnt : 0, middle;

	/* the last that begins before it */
	while (lo < hi) {
		middle = (lo + hi) / 2;
		if (it->list[middle].begin_ns <= ns)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo && ns < it->list[lo - 1].end_ns ? it->list[lo - 1].round + 1 : 0;
}

const struct analysis_ops iter_ops = {
	.name = "iterations",
	.new = iter__new,
	.event = iter_event,
	.finish = iter_finish,
	.json = iter_json,
	.print = iter_print,
	.free = iter__free,
	.of_args = true,
};
