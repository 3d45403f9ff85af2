/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Long times between calls on the critical path: where they are, and what the trace shows of them.
 * A trace has Python frames of calls, not of the time between them. So the calls around such a time
 * show where it is: the program loads data if one of them, or another thread meanwhile, is in a
 * library for that, or if the next ones copy data to a GPU. Waits for Python's lock are recognised
 * by their length.
 */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

#include "report/map/map.h"
#include "util/order.h"

#define LONG_NS	   500000
#define STEPS_MIN  3 /* with such a time, and one step in STEPS_PART */
#define STEPS_PART 10
#define LOOK_AHEAD 64 /* calls */

/* Another thread makes calls in three quarters of these times, and then SURE times as often as in
 * the rest of the steps. */
#define SURE 4

/*
 * CPython gives its lock (GIL) to a waiting thread when that has waited for 5 ms, if another thread
 * computes (sys.getswitchinterval(), CPython 3.2 to 3.14). The thread then needs some time to run.
 * Times between calls may have several such waits. Times that are compared: from SHORT_NS to
 * LONGEST_NS.
 */
#define SWITCH_NS	5000000
#define SWITCH_LATE_NS	700000
#define SHORT_NS	2500000
#define LONGEST_NS	20000000
#define LOCK_CNT_MIN	20
#define LOCK_PLACES_MIN 3

/* In the path of a Python file: libraries that load data. */
static const char *const loaders[] = {
	"/torch/utils/data/",	"/tensorflow/python/data/", "/nvidia/dali/",
	"-packages/torchdata/", "-packages/webdataset/",    "-packages/datasets/",
	"-packages/streaming/",
};

struct gap {
	uint64_t begin_ns, end_ns;
	uint64_t window; /* index of its step */
	uint32_t seg;	 /* interval after it */
	const struct api_fn *fn;
	const struct stack_frame *frame;
};

/* The gaps, and those that were chosen of each kind: all of one place. */
struct finder {
	struct steps *s;
	const struct step_window *windows;
	uint64_t window_cnt;
	struct gap *gaps;
	struct gap *locks;		    /* room for as many */
	uint64_t *buf;			    /* room for a value of each gap */
	uint64_t all_cnt[STEP_THREADS];	    /* calls from Python of each thread in the steps */
	const struct gap *of[STEP_GAP_CNT]; /* the first of them; res.gaps has their number */
};

/* Calls of one thread during the gaps of one place. */
struct beside {
	uint64_t gap_cnt, call_cnt;
	uint64_t longest_ns; /* of the gaps with a call */
	uint32_t call;	     /* in that one */
};

static int by_place(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;
	const struct stack_frame none = {0}, *f = x->frame ?: &none, *g = y->frame ?: &none;

	return ASCENDING((uintptr_t)x->fn, (uintptr_t)y->fn)
	       ?: ASCENDING((uintptr_t)f->symbol, (uintptr_t)g->symbol)
	       ?: ASCENDING((uintptr_t)f->module, (uintptr_t)g->module)
	       ?: ASCENDING(f->line, g->line);
}

static int by_place_and_time(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return by_place(a, b) ?: ASCENDING(x->begin_ns, y->begin_ns);
}

/* The step that contains the gap; cnt: none. */
static uint64_t window_of(const struct step_window *windows, uint64_t cnt,
			  const struct step_piece *p)
{
	uint64_t n = COUNT_LEADING(i, cnt, windows[i].end_ns < p->end_ns);

	return n < cnt && windows[n].begin_ns <= p->begin_ns ? n : cnt;
}

static bool is_long(const struct step_piece *p)
{
	return p->kind == STEP_BETWEEN && p->end_ns - p->begin_ns >= LONG_NS &&
	       p->call != STEP_NONE;
}

/* Returns their number. */
static uint32_t find_gaps(struct finder *f)
{
	const struct step_graph *g = &f->s->graph;
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->s->path.cnt; i++) {
		const struct step_piece *p = &f->s->path.pieces[i];
		const struct step_seg *seg;
		uint64_t window;

		if (!is_long(p))
			continue;
		window = window_of(f->windows, f->window_cnt, p);
		if (window == f->window_cnt)
			continue;
		seg = step_seg_before(g, step_thread_of(g, p->call), p->end_ns + 1);
		if (seg && seg->start_ns == p->end_ns && seg->call == p->call)
			f->gaps[n++] = (struct gap){p->begin_ns,
						    p->end_ns,
						    window,
						    seg - g->segs,
						    g->calls[p->call].fn,
						    step_python_frame(g, p->call)};
	}
	return n;
}

/* The first call that begins at this time or later. */
static uint32_t first_call(const struct step_graph *g, uint64_t ns)
{
	return COUNT_LEADING(i, g->call_cnt, g->calls[i].start_ns < ns);
}

/* Whether the thread copies data to a GPU before it launches. */
static bool copies_input(const struct step_graph *g, uint32_t call)
{
	uint32_t tid = g->calls[call].tid;

	for (uint32_t i = call; i < g->call_cnt && i - call < LOOK_AHEAD; i++) {
		if (g->calls[i].tid != tid)
			continue;
		if (g->calls[i].is_htod || g->calls[i].launches)
			return g->calls[i].is_htod;
	}
	return false;
}

static bool is_loader(const struct stack_frame *f)
{
	for (unsigned i = 0; f->python && f->module && i < sizeof(loaders) / sizeof(*loaders); i++)
		if (strstr(f->module, loaders[i]))
			return true;
	return false;
}

/* Finds the outermost frame of a library that loads data, and the function that called it, unless
 * they are known. */
static void find_loader(const struct stack *stack, struct step_gap *to)
{
	const struct stack_frame *caller = NULL;

	for (unsigned i = stack ? stack->frame_cnt : 0; i-- && !to->loader;) {
		const struct stack_frame *f = &stack->frames[i];

		if (f->symbol && is_loader(f)) {
			to->loader = f;
			to->caller = caller;
		} else if (f->python && f->symbol && !map_is_noise(f)) {
			caller = f;
		}
	}
}

static bool has_python(const struct stack *stack)
{
	for (unsigned i = 0; stack && i < stack->frame_cnt; i++)
		if (stack->frames[i].python && stack->frames[i].symbol)
			return true;
	return false;
}

/* The thread of a call from Python, as an index of g->threads; STEP_THREADS: none. */
static unsigned python_thread(const struct step_graph *g, uint32_t call)
{
	unsigned t = step_thread_of(g, call);

	/* There are more threads than the graph has. */
	if (g->threads[t].tid != g->calls[call].tid || !has_python(g->calls[call].stack))
		return STEP_THREADS;
	return t;
}

/* Counts the calls from Python that each thread makes in these gaps. */
static void count_beside(const struct step_graph *g, const struct gap *gaps, uint32_t cnt,
			 struct beside *of)
{
	for (uint32_t n = 0; n < cnt; n++) {
		uint64_t is_in = 0, ns = gaps[n].end_ns - gaps[n].begin_ns;

		for (uint32_t i = first_call(g, gaps[n].begin_ns);
		     i < g->call_cnt && g->calls[i].start_ns < gaps[n].end_ns; i++) {
			unsigned t = python_thread(g, i);

			if (t == STEP_THREADS)
				continue;
			of[t].call_cnt++;
			of[t].gap_cnt += !(is_in >> t & 1);
			is_in |= 1ull << t;
			if (ns > of[t].longest_ns) {
				of[t].longest_ns = ns;
				of[t].call = i;
			}
		}
	}
}

/* Finds the thread that makes calls in these gaps, and seldom else. */
static bool find_thread(const struct finder *f, const struct gap *gaps, uint32_t cnt,
			struct step_gap *to)
{
	const struct step_graph *g = &f->s->graph;
	struct beside of[STEP_THREADS] = {0};
	double rest_ns = f->windows[f->window_cnt - 1].end_ns - f->windows->begin_ns - to->ns;

	count_beside(g, gaps, cnt, of);
	for (unsigned t = 0; t < g->thread_cnt; t++) {
		const struct beside *x = &of[t];

		if (x->gap_cnt * 4 < cnt * 3ull || x->call_cnt <= to->call_cnt ||
		    x->call_cnt * rest_ns < SURE * (double)(f->all_cnt[t] - x->call_cnt) * to->ns)
			continue;
		to->tid = g->threads[t].tid;
		to->call_cnt = x->call_cnt;
		to->other = step_frame_in(g->calls[x->call].stack);
		find_loader(g->calls[x->call].stack, to);
	}
	return to->call_cnt;
}

static void describe(const struct step_graph *g, const struct gap *example, struct step_gap *to)
{
	const struct step_seg *seg = &g->segs[example->seg];
	const struct step_seg *first = &g->segs[g->threads[step_thread_of(g, seg->call)].first];
	const struct step_call *after = &g->calls[seg->call];
	const struct step_call *before = seg > first ? &g->calls[seg[-1].call] : NULL;

	to->begin_ns = example->begin_ns;
	to->after_id = after->id;
	to->after = example->frame;
	to->fn = after->fn;
	find_loader(after->stack, to);
	if (before) {
		find_loader(before->stack, to);
		to->before_id = before->id;
		to->before = step_python_frame(g, seg[-1].call);
	}
}

/* Sets the number of steps and the usual time of such a step. buf: room for cnt values. */
static void measure(const struct gap *gaps, uint32_t cnt, uint64_t *buf, struct step_gap *to)
{
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t ns = gaps[i].end_ns - gaps[i].begin_ns;

		if (!i || gaps[i].window != gaps[i - 1].window)
			buf[to->step_cnt++] = 0;
		buf[to->step_cnt - 1] += ns;
		to->ns += ns;
	}
	to->cnt = cnt;
	sort_values(buf, to->step_cnt);
	to->typical_ns = sorted_percentile(buf, to->step_cnt, 0.5);
}

static int by_time(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns);
}

static bool is_switch(uint64_t ns)
{
	return ns >= SWITCH_NS && ns % SWITCH_NS <= ns / SWITCH_NS * SWITCH_LATE_NS;
}

/* Adds the gaps that are too long to be compared: probably several waits, with short work between
 * them. Input data that the program is known to load keeps its own finding. */
static uint32_t add_longer(struct finder *f, uint32_t cnt, uint32_t n, struct step_gap *to)
{
	const struct step_gap *input = &f->s->res.gaps[STEP_GAP_INPUT];
	const struct gap *loads = input->loader ? f->of[STEP_GAP_INPUT] : NULL;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct gap *gap = &f->gaps[i];
		uint64_t ns = gap->end_ns - gap->begin_ns;

		if (ns < LONGEST_NS || (loads && gap >= loads && gap < loads + input->cnt))
			continue;
		to->longer_cnt++;
		to->longer_ns += ns;
		f->locks[n++] = *gap;
	}
	return n;
}

/* gaps: sorted by place. At least 60 % of the compared times must be waits for the lock by their
 * length, at several places, some of them in Python. A sleep of 5 ms has one place. */
static void find_lock(struct finder *f, uint32_t cnt)
{
	const struct step_graph *g = &f->s->graph;
	uint32_t compared = 0, n = 0, in_python = 0, example = 0;
	struct step_gap x = {0};

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t ns = f->gaps[i].end_ns - f->gaps[i].begin_ns;

		if (ns < SHORT_NS || ns >= LONGEST_NS)
			continue;
		compared++;
		if (!is_switch(ns))
			continue;
		x.place_cnt += !n || by_place(&f->locks[n - 1], &f->gaps[i]);
		in_python += f->gaps[i].frame != NULL;
		f->locks[n++] = f->gaps[i];
	}
	if (n < LOCK_CNT_MIN || n * 5ull < compared * 3ull || x.place_cnt < LOCK_PLACES_MIN ||
	    in_python * 4ull < n)
		return;
	while (example + 1 < n && !f->locks[example].frame)
		example++;
	describe(g, &f->locks[example], &x);
	n = add_longer(f, cnt, n, &x);
	qsort(f->locks, n, sizeof(*f->locks), by_time);
	measure(f->locks, n, f->buf, &x);
	if (x.step_cnt < STEPS_MIN || x.step_cnt * STEPS_PART < f->window_cnt)
		return;
	f->s->res.gaps[STEP_GAP_LOCK] = x;
	f->of[STEP_GAP_LOCK] = f->locks;
	/* The lock explains what was only likely. */
	f->s->res.gaps[STEP_GAP_THREAD] = (struct step_gap){0};
	if (!f->s->res.gaps[STEP_GAP_INPUT].loader)
		f->s->res.gaps[STEP_GAP_INPUT] = (struct step_gap){0};
}

static uint64_t differs_by(const struct gap *x, uint64_t ns)
{
	uint64_t own = x->end_ns - x->begin_ns;

	return own > ns ? own - ns : ns - own;
}

/* Takes the gaps of one place, if they are longer than those of their kind at other places. */
static void on_place(struct finder *f, const struct gap *gaps, uint32_t cnt)
{
	const struct step_graph *g = &f->s->graph;
	const struct gap *example = gaps;
	struct step_gap x = {0};
	enum step_gap_kind kind;

	measure(gaps, cnt, f->buf, &x);
	if (x.step_cnt < STEPS_MIN || x.step_cnt * STEPS_PART < f->window_cnt)
		return;
	for (uint32_t i = 1; i < cnt; i++)
		if (differs_by(&gaps[i], x.typical_ns) <= differs_by(example, x.typical_ns))
			example = &gaps[i];
	describe(g, example, &x);
	if (find_thread(f, gaps, cnt, &x) && !x.loader)
		kind = STEP_GAP_THREAD;
	else if (x.loader || copies_input(g, g->segs[example->seg].call))
		kind = STEP_GAP_INPUT;
	else
		return;
	if (x.ns <= f->s->res.gaps[kind].ns)
		return;
	f->s->res.gaps[kind] = x;
	f->of[kind] = gaps;
}

static void find(struct finder *f)
{
	const struct step_graph *g = &f->s->graph;
	const struct step_window *last = &f->windows[f->window_cnt - 1];
	uint32_t cnt = find_gaps(f), end;

	if (!cnt)
		return;
	for (uint32_t i = first_call(g, f->windows->begin_ns);
	     i < g->call_cnt && g->calls[i].start_ns < last->end_ns; i++) {
		unsigned t = python_thread(g, i);

		if (t < STEP_THREADS)
			f->all_cnt[t]++;
	}
	qsort(f->gaps, cnt, sizeof(*f->gaps), by_place_and_time);
	for (uint32_t i = 0; i < cnt; i = end) {
		for (end = i + 1; end < cnt && !by_place(&f->gaps[i], &f->gaps[end]); end++)
			;
		on_place(f, &f->gaps[i], end - i);
	}
	find_lock(f, cnt);
	for (unsigned k = 0; k < STEP_GAP_CNT; k++)
		for (uint64_t i = 0; f->of[k] && i < f->s->res.gaps[k].cnt; i++)
			g->segs[f->of[k][i].seg].gap = k;
}

void step_gaps_make(struct steps *s, const struct step_window *windows, uint64_t cnt)
{
	struct finder f = {.s = s, .windows = windows, .window_cnt = cnt};
	uint32_t n = 0;

	/* Without GPU times it is not known whether the GPU has work meanwhile. */
	if (!s->graph.exec_cnt)
		return;
	for (uint32_t i = 0; i < s->path.cnt; i++)
		n += is_long(&s->path.pieces[i]);
	f.gaps = malloc((n + 1) * sizeof(*f.gaps));
	f.locks = malloc((n + 1) * sizeof(*f.locks));
	f.buf = malloc((n + 1) * sizeof(*f.buf));
	if (f.gaps && f.locks && f.buf)
		find(&f);
	free(f.gaps);
	free(f.locks);
	free(f.buf);
}
