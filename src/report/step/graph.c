/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The dependency graph of one process. An execution starts after the one before it on its stream,
 * after work that its stream was told to wait for (cuStreamWaitEvent, the legacy default stream),
 * after some node of the same graph, and after the call that requested it. A call that waits for a
 * stream, an event or a context returns after the last work that was submitted there before it.
 */
#include "step_priv.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define OPEN_MAX  64 /* calls inside one another */
#define LOOK_BACK 32

#define PLAN_NS	    20000
#define PLAN_GAP_NS 1000000

struct id_row {
	uint64_t id;
	uint32_t call;
};

struct stream_state {
	uint32_t last; /* execution submitted last */
	uint32_t dep;  /* execution that the next work waits for */
	bool is_blocking;
};

/* State of the pass over the calls. */
struct deps {
	struct step_graph *g;
	struct keys stream_keys, event_keys;
	struct stream_state *streams;
	uint32_t *events; /* last execution before the event was recorded */
	unsigned stream_cap, event_cap;
	uint32_t *first, *last; /* executions of each call */
	uint32_t legacy_last, blocking_last, process_last;
};

static uint32_t later(uint32_t a, uint32_t b)
{
	if (a == STEP_NONE || b == STEP_NONE)
		return a == STEP_NONE ? b : a;
	return a > b ? a : b;
}

static int by_start(const void *a, const void *b)
{
	const struct step_call *x = a, *y = b;

	return ASCENDING(x->start_ns, y->start_ns) ?: DESCENDING(x->end_ns, y->end_ns)
	       ?: ASCENDING(x->id, y->id);
}

static int by_end(const void *a, const void *b)
{
	const struct step_exec *x = a, *y = b;

	return ASCENDING(x->end_ns, y->end_ns) ?: ASCENDING(x->start_ns, y->start_ns)
	       ?: ASCENDING(x->call_id, y->call_id);
}

static int by_id(const void *a, const void *b)
{
	const struct id_row *x = a, *y = b;

	return ASCENDING(x->id, y->id);
}

static bool take_rows(struct steps *s, uint32_t pid)
{
	struct step_graph *g = &s->graph;
	const struct step_call *calls = s->calls.rows;
	const struct step_exec *execs = s->execs.rows;

	g->calls = malloc((s->calls.cnt + 1) * sizeof(*g->calls));
	g->execs = malloc((s->execs.cnt + 1) * sizeof(*g->execs));
	g->target = malloc((s->calls.cnt + 1) * sizeof(*g->target));
	g->segs = malloc((2 * (size_t)s->calls.cnt + 1) * sizeof(*g->segs));
	if (!g->calls || !g->execs || !g->target || !g->segs)
		return false;
	for (uint32_t i = 0; i < s->calls.cnt; i++)
		if (calls[i].pid == pid)
			g->calls[g->call_cnt++] = calls[i];
	for (uint32_t i = 0; i < s->execs.cnt; i++)
		if (execs[i].pid == pid)
			g->execs[g->exec_cnt++] = execs[i];
	qsort(g->calls, g->call_cnt, sizeof(*g->calls), by_start);
	qsort(g->execs, g->exec_cnt, sizeof(*g->execs), by_end);
	return g->call_cnt;
}

/* Sets the call of each execution, and the first and last execution of each call. */
static bool match(struct deps *d)
{
	struct step_graph *g = d->g;
	struct id_row *ids = malloc(g->call_cnt * sizeof(*ids)), *found;

	d->first = malloc(g->call_cnt * sizeof(*d->first));
	d->last = malloc(g->call_cnt * sizeof(*d->last));
	if (!ids || !d->first || !d->last) {
		free(ids);
		return false;
	}
	for (uint32_t i = 0; i < g->call_cnt; i++) {
		ids[i] = (struct id_row){g->calls[i].id, i};
		d->first[i] = d->last[i] = g->target[i] = STEP_NONE;
	}
	qsort(ids, g->call_cnt, sizeof(*ids), by_id);
	for (uint32_t i = 0; i < g->exec_cnt; i++) {
		struct step_exec *x = &g->execs[i];
		struct id_row key = {x->call_id, 0};

		x->before[0] = x->before[1] = x->call = STEP_NONE;
		found = x->call_id ? bsearch(&key, ids, g->call_cnt, sizeof(*ids), by_id) : NULL;
		if (!found)
			continue;
		x->call = found->call;
		d->last[x->call] = i;
		if (d->first[x->call] == STEP_NONE ||
		    x->start_ns < g->execs[d->first[x->call]].start_ns)
			d->first[x->call] = i;
	}
	free(ids);
	return true;
}

/* Executions on the same stream of CUPTI, and of the same graph. */
static void order_execs(struct deps *d)
{
	struct step_graph *g = d->g;
	struct keys queues = {0};
	uint32_t *last = NULL;
	unsigned cap = 0;

	for (uint32_t i = 0; i < g->exec_cnt; i++) {
		struct step_exec *x = &g->execs[i];
		uint32_t row = keys_row(&queues, x->queue + 1, MEMLIMIT_STREAMS, last, cap), p;

		if (row != KEYS_NONE) {
			p = last[row] - 1; /* 0: none */
			for (unsigned n = 0;
			     p != STEP_NONE && g->execs[p].end_ns > x->start_ns && n < LOOK_BACK;
			     n++)
				p = g->execs[p].before[0];
			x->before[0] =
				p != STEP_NONE && g->execs[p].end_ns > x->start_ns ? STEP_NONE : p;
			last[row] = i + 1;
		}
		for (uint32_t n = 1; x->call != STEP_NONE && n <= LOOK_BACK && n <= i; n++) {
			const struct step_exec *y = &g->execs[i - n];

			if (y->call == x->call && y->end_ns <= x->start_ns) {
				x->before[1] = i - n;
				break;
			}
		}
	}
	keys__free(&queues);
	memlimit_free(last);
}

static struct stream_state *stream_of(struct deps *d, uint64_t key)
{
	unsigned cnt = d->stream_keys.cnt;
	uint32_t row = keys_row(&d->stream_keys, key, MEMLIMIT_STREAMS, d->streams, d->stream_cap);

	if (row == KEYS_NONE)
		return NULL;
	if (d->stream_keys.cnt > cnt)
		d->streams[row] = (struct stream_state){STEP_NONE, STEP_NONE, false};
	return &d->streams[row];
}

static uint32_t *event_of(struct deps *d, uint64_t key)
{
	unsigned cnt = d->event_keys.cnt;
	uint32_t row = keys_row(&d->event_keys, key, MEMLIMIT_EVENTS, d->events, d->event_cap);

	if (row == KEYS_NONE)
		return NULL;
	if (d->event_keys.cnt > cnt)
		d->events[row] = STEP_NONE;
	return &d->events[row];
}

static void on_submit(struct deps *d, uint32_t i, struct stream_state *st)
{
	const struct step_call *c = &d->g->calls[i];
	struct step_exec *x = &d->g->execs[d->first[i]];
	uint32_t dep = st->dep;

	if (c->is_legacy)
		dep = later(dep, d->blocking_last);
	else if (st->is_blocking)
		dep = later(dep, d->legacy_last);
	if (dep != STEP_NONE && d->g->execs[dep].end_ns <= x->start_ns)
		x->before[1] = later(x->before[1], dep);
	st->dep = STEP_NONE;
	st->last = later(st->last, d->last[i]);
	if (c->is_legacy)
		d->legacy_last = later(d->legacy_last, d->last[i]);
	else if (st->is_blocking)
		d->blocking_last = later(d->blocking_last, d->last[i]);
	d->process_last = later(d->process_last, d->last[i]);
}

/* The execution after which the stream has nothing left to do. */
static uint32_t done_of(const struct deps *d, const struct step_call *c,
			const struct stream_state *st)
{
	uint32_t last = later(st->last, st->dep);

	return c->is_legacy ? later(last, d->blocking_last) : last;
}

static uint32_t target_of(const struct deps *d, uint32_t i, const struct stream_state *st,
			  const uint32_t *event)
{
	const struct step_call *c = &d->g->calls[i];

	if (d->last[i] != STEP_NONE)
		return d->last[i];
	if (c->of_event)
		return event ? *event : STEP_NONE;
	if (!c->of_stream)
		return d->process_last;
	return done_of(d, c, st);
}

static void find_deps(struct deps *d)
{
	struct step_graph *g = d->g;

	for (uint32_t i = 0; i < g->call_cnt; i++) {
		const struct step_call *c = &g->calls[i];
		struct stream_state *st = c->stream ? stream_of(d, c->stream) : NULL;
		uint32_t *event = c->of_event ? event_of(d, c->cu_event) : NULL;

		if (!st)
			continue;
		if (c->creates_stream)
			st->is_blocking = c->is_blocking;
		if (c->submits && d->last[i] != STEP_NONE)
			on_submit(d, i, st);
		if (event && c->fn->op == OP_RECORD)
			*event = done_of(d, c, st);
		if (event && c->fn->op == OP_WAIT)
			st->dep = later(st->dep, *event);
		if (c->waits || c->may_wait)
			g->target[i] = target_of(d, i, st, event);
	}
}

/* --- intervals of threads --- */

struct open_call {
	uint32_t call;
	uint64_t end_ns;
};

struct flatten {
	struct step_graph *g;
	struct step_thread *t;
	struct open_call open[OPEN_MAX];
	unsigned open_cnt;
	uint64_t cursor_ns;
};

/* The open call that the time belongs to: a call that makes plans with all that it does; else the
 * outermost call of the driver; else the innermost one. */
static uint32_t owner_of(const struct flatten *f)
{
	const struct step_call *calls = f->g->calls;

	for (unsigned i = 0; i < f->open_cnt; i++)
		if (calls[f->open[i].call].kind == STEP_PLAN)
			return f->open[i].call;
	for (unsigned i = 0; i < f->open_cnt; i++)
		if (calls[f->open[i].call].fn->api == API_CUDA)
			return f->open[i].call;
	return f->open[f->open_cnt - 1].call;
}

static void emit(struct flatten *f, uint64_t until_ns)
{
	struct step_seg *seg = &f->g->segs[f->t->first + f->t->cnt];
	uint32_t call = owner_of(f);

	if (until_ns <= f->cursor_ns)
		return;
	if (f->t->cnt && seg[-1].call == call && seg[-1].end_ns == f->cursor_ns) {
		seg[-1].end_ns = until_ns;
	} else {
		*seg = (struct step_seg){
			.start_ns = f->cursor_ns, .end_ns = until_ns, .call = call};
		f->t->cnt++;
	}
	f->cursor_ns = until_ns;
}

static void close_until(struct flatten *f, uint64_t ns)
{
	for (; f->open_cnt && f->open[f->open_cnt - 1].end_ns <= ns; f->open_cnt--)
		emit(f, f->open[f->open_cnt - 1].end_ns);
}

static void open_call(struct flatten *f, uint32_t i)
{
	struct step_call *c = &f->g->calls[i];
	uint64_t end = c->end_ns;

	close_until(f, c->start_ns);
	if (f->open_cnt) {
		emit(f, c->start_ns);
		c->outer = f->open[f->open_cnt - 1].call;
		/* Lines of a damaged trace may overlap. */
		if (end > f->open[f->open_cnt - 1].end_ns)
			end = f->open[f->open_cnt - 1].end_ns;
	}
	if (f->cursor_ns < c->start_ns)
		f->cursor_ns = c->start_ns;
	if (f->open_cnt < OPEN_MAX)
		f->open[f->open_cnt++] = (struct open_call){i, end};
}

static struct step_thread *thread_of(struct step_graph *g, uint32_t tid)
{
	unsigned i = 0;

	while (i < g->thread_cnt && g->threads[i].tid != tid)
		i++;
	if (i == STEP_THREADS)
		return NULL;
	if (i == g->thread_cnt) {
		g->threads[i] = (struct step_thread){.tid = tid};
		g->thread_cnt++;
	}
	return &g->threads[i];
}

static bool make_segs(struct step_graph *g, uint32_t main_tid)
{
	struct flatten *f = calloc(STEP_THREADS, sizeof(*f));
	struct step_thread *t;
	uint32_t cnt[STEP_THREADS] = {0}, first = 0;

	if (!f)
		return false;
	thread_of(g, main_tid);
	for (uint32_t i = 0; i < g->call_cnt; i++) {
		t = thread_of(g, g->calls[i].tid);
		if (!t)
			continue;
		cnt[t - g->threads]++;
		t->launch_cnt += g->calls[i].launches;
	}
	for (unsigned i = 0; i < g->thread_cnt; i++) {
		g->threads[i].first = first;
		first += 2 * cnt[i];
		f[i].g = g;
		f[i].t = &g->threads[i];
	}
	for (uint32_t i = 0; i < g->call_cnt; i++) {
		t = thread_of(g, g->calls[i].tid);
		if (t)
			open_call(&f[t - g->threads], i);
	}
	for (unsigned i = 0; i < g->thread_cnt; i++)
		close_until(&f[i], UINT64_MAX);
	free(f);
	return true;
}

/* Time that both threads are in calls. */
static uint64_t common_ns(const struct step_graph *g, const struct step_thread *a,
			  const struct step_thread *b)
{
	const struct step_seg *x = g->segs + a->first, *y = g->segs + b->first;
	const struct step_seg *x_end = x + a->cnt, *y_end = y + b->cnt;
	uint64_t sum = 0;

	while (x < x_end && y < y_end) {
		uint64_t from = x->start_ns > y->start_ns ? x->start_ns : y->start_ns;
		uint64_t to = x->end_ns < y->end_ns ? x->end_ns : y->end_ns;

		sum += to > from ? to - from : 0;
		if (x->end_ns < y->end_ns)
			x++;
		else
			y++;
	}
	return sum;
}

static uint64_t total_ns(const struct step_graph *g, const struct step_thread *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->cnt; i++)
		sum += g->segs[t->first + i].end_ns - g->segs[t->first + i].start_ns;
	return sum;
}

/* A thread that launches a tenth of what the main thread does, and is in calls at the same time for
 * at most a fiftieth of its time in calls. */
static void find_alternating(struct step_graph *g)
{
	for (unsigned i = 1; i < g->thread_cnt; i++) {
		struct step_thread *t = &g->threads[i];

		t->alternates = t->launch_cnt && t->launch_cnt * 10 >= g->threads[0].launch_cnt &&
				common_ns(g, t, &g->threads[0]) * 50 <= total_ns(g, t);
	}
}

/* Marks a run of calls in which cuDNN builds a plan: [first, last]. The first execution of the plan
 * loads its kernels, until end at most. */
static void mark_plan(struct step_graph *g, uint32_t first, uint32_t last, uint32_t end)
{
	for (uint32_t i = last + 1; i < end && !g->calls[g->segs[i].call].submits; i++)
		g->segs[i].is_plan = g->calls[g->segs[i].call].kind == STEP_MODULE;
	for (uint32_t i = first; i <= last; i++) {
		g->segs[i].is_plan = true;
		g->segs[i].is_plan_before = i > first;
	}
}

/*
 * cuDNN builds a plan in many calls: descriptors are made and finalized, and heuristics are
 * queried. Each execution also makes a descriptor of its pointers, in calls that take about 1 us.
 * So a run of such calls builds a plan if those that finalize take PLAN_NS together.
 */
static void find_plans(struct step_graph *g, const struct step_thread *t)
{
	uint32_t first = STEP_NONE, last = 0, end = t->first + t->cnt;
	uint64_t ns = 0;

	for (uint32_t i = t->first; i <= end; i++) {
		const struct step_call *c = i < end ? &g->calls[g->segs[i].call] : NULL;
		bool goes_on = c && first != STEP_NONE && !c->submits && !c->waits &&
			       (c->is_dnn_setup || c->fn->api == API_CUDA) &&
			       g->segs[i].start_ns - g->segs[i - 1].end_ns < PLAN_GAP_NS;

		if (first != STEP_NONE && !goes_on) {
			if (ns >= PLAN_NS)
				mark_plan(g, first, last, end);
			first = STEP_NONE;
		}
		if (!c)
			break;
		if (!c->is_dnn_setup) {
			g->segs[i].is_plan |= c->kind == STEP_PLAN;
			continue;
		}
		if (first == STEP_NONE) {
			first = i;
			ns = 0;
		}
		last = i;
		if (c->kind == STEP_PLAN)
			ns += g->segs[i].end_ns - g->segs[i].start_ns;
	}
}

bool step_graph_make(struct steps *s, const struct iter_result *iter)
{
	struct step_graph *g = &s->graph;
	struct deps d = {.g = g,
			 .legacy_last = STEP_NONE,
			 .blocking_last = STEP_NONE,
			 .process_last = STEP_NONE};
	bool is_made = take_rows(s, iter->pid) && match(&d);

	if (is_made) {
		order_execs(&d);
		find_deps(&d);
		is_made = make_segs(g, iter->tid) && g->threads[0].cnt;
	}
	if (is_made)
		find_alternating(g);
	for (unsigned i = 0; is_made && i < g->thread_cnt; i++)
		find_plans(g, &g->threads[i]);
	if (is_made)
		step_topics_make(g);
	keys__free(&d.stream_keys);
	keys__free(&d.event_keys);
	memlimit_free(d.streams);
	memlimit_free(d.events);
	free(d.first);
	free(d.last);
	return is_made;
}

void step_graph_free(struct step_graph *g)
{
	free(g->calls);
	free(g->execs);
	free(g->target);
	free(g->segs);
	*g = (struct step_graph){0};
}
