/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Iterations: tokens, training steps. Each thread's calls are cut into segments, by default where
 * the thread waits for the GPU after launches. A segment's pattern is the number of launches of
 * each kernel. Two are similar if they share four fifths of their launches, so a kernel that
 * depends on length does not change the pattern.
 */
#include "iter_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/kernels/graphs.h"

#define ALIKE	    0.8
#define KERNELS_MAX (1 << 20)
#define GRAPH_KEY   1 /* no address of a name */

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
	free(it->rows);
	memlimit_free(it->list);
	memlimit_share_free(&it->seg_rows);
	keys__free(&it->thread_keys);
	keys__free(&it->kernel_keys);
	keys__free(&it->coll_keys);
	memlimit_free(it->colls);
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
	uint32_t i = keys_row(&it->thread_keys, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS,
			      it->threads, it->thread_cap);

	if (i == KEYS_NONE)
		return NULL;
	it->threads[i].pid = ev->pid;
	it->threads[i].tid = ev->tid;
	return &it->threads[i];
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

/* The pattern of the open segment; a new one if no pattern is similar. */
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

	if (!memlimit_charge(&it->seg_rows, 1, MEMLIMIT_SEGMENTS_MAX, MEMLIMIT_SEGMENTS))
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
		t->cur.colls = iter_colls_of(it, t->pid);
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

uint32_t iter_colls_of(struct iter *it, uint32_t pid)
{
	uint32_t i = keys__find(&it->coll_keys, pid);

	return i == KEYS_NONE ? 0 : it->colls[i];
}

static void count_collective(struct iter *it, const struct trace_event *ev)
{
	uint32_t i = keys_row(&it->coll_keys, ev->pid, MEMLIMIT_THREADS, it->colls, it->coll_cap);

	if (i != KEYS_NONE)
		it->colls[i]++;
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

	if (!call_was_made(ev))
		return;
	if (ev->type == TYPE_COLLECTIVE && call_is_outer(ev) && call_does(ev, DOES_COLLECTIVE))
		count_collective(it, ev);
	if (!call_is_top(ev))
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

static void iter_finish(void *a)
{
	struct iter *it = a;

	for (unsigned i = 0; i < it->thread_keys.cnt && i < it->thread_cap; i++)
		cut(it, &it->threads[i]);
	iter_find(it);
}

const struct analysis_ops iter_ops = {
	.name = "iterations",
	.size = STATE_SIZE(struct iter),
	.event = iter_event,
	.finish = iter_finish,
	.section = &iter_table,
	.print = iter_print,
	.free = iter__free,
	.of_args = true,
	.needs = "launch graph",
};
