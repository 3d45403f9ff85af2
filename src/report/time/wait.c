/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that block: synchronisations, and copies between host and device that are not async. The
 * call waits for the last kernel on the stream, or for the copy itself. A wait for a whole context
 * is for the thread's last kernel in it; if it launched none, for the last one of any thread. Calls
 * that may block are listed too, without a claim that they did.
 */
#include "wait.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "util/law.h"
#include "report/callers.h"
#include "report/collect.h"
#include "report/memory/memory.h"
#include "util/order.h"

#define LIST_MAX 1000

struct wait_fn {
	const struct api_fn *fn;
	uint64_t cnt, total_ns, max_ns, off_cpu_ns;
	struct loghist *loghist;
};

struct wait_for {
	uint32_t fn;
	const char *kernel; /* NULL: use what */
	const char *what;
	uint64_t cnt, total_ns;
};

struct wait_thread {
	uint32_t pid, tid;
	const char *comm;
	uint64_t cnt, total_ns;
};

struct wait_long {
	uint64_t start_ns, ns, id;
	const char *name, *kernel;
	uint32_t pid, tid;
};

struct waits {
	struct report *r;
	uint64_t cnt, total_ns, off_cpu_ns;
	uint64_t unfinished_cnt; /* calls of cnt that had not returned */
	struct unfinished_wait longest_unfinished;
	uint64_t longest_returned_ns;
	bool has_off_cpu;
	struct keys fn_keys, for_keys, thread_keys, may_keys;
	struct wait_fn *fns, *may;
	struct wait_for *fors;
	struct wait_thread *threads;
	unsigned fn_cap, for_cap, thread_cap, may_cap;
	struct keys last_keys; /* streams, threads in contexts, and contexts */
	const char **last;     /* kernel launched last, by key */
	unsigned last_cap;
	struct callers callers;
	struct wait_long list[LIST_MAX]; /* longest first */
	unsigned list_cnt, list_max;
	const struct wait_fn **by_time, **may_by_time; /* after the finish */
};

static void *waits__new(struct report *r)
{
	struct waits *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->r = r;
	w->list_max = r->opts.top < LIST_MAX ? r->opts.top : LIST_MAX;
	return w;
}

static void waits__free(void *a)
{
	struct waits *w = a;

	for (unsigned i = 0; i < w->fn_keys.cnt && i < w->fn_cap; i++)
		memlimit_free(w->fns[i].loghist);
	for (unsigned i = 0; i < w->may_keys.cnt && i < w->may_cap; i++)
		memlimit_free(w->may[i].loghist);
	keys__free(&w->fn_keys);
	keys__free(&w->for_keys);
	keys__free(&w->thread_keys);
	keys__free(&w->may_keys);
	keys__free(&w->last_keys);
	callers__free(&w->callers);
	memlimit_free(w->fns);
	memlimit_free(w->may);
	memlimit_free(w->fors);
	memlimit_free(w->threads);
	memlimit_free(w->last);
	free(w->by_time);
	free(w->may_by_time);
	free(w);
}

/* Scopes in which the last kernel is kept. */
enum last_of { OF_STREAM, OF_THREAD, OF_CONTEXT, LAST_CNT };

static uint64_t last_key(const struct waits *w, const struct trace_event *ev, enum last_of of)
{
	uint64_t stream = call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);
	bool own = !stream || stream == CU_STREAM_PER_THREAD; /* each context has it */
	uint64_t ctx = of != OF_STREAM || own ? memory_context(w->r, ev) : 0;
	uint64_t key = of == OF_STREAM ? stream : UINT64_MAX - of;
	bool threads = of == OF_THREAD || (of == OF_STREAM && stream == CU_STREAM_PER_THREAD);

	return pair_key(pair_key(pair_key(key, ctx), ev->pid), threads ? ev->tid : 0);
}

static void note_launch(struct waits *w, const struct trace_event *ev, enum last_of of)
{
	uint32_t i = keys_row(&w->last_keys, last_key(w, ev, of), MEMLIMIT_STREAMS, w->last,
			      w->last_cap);

	if (i == KEYS_NONE)
		return;
	w->last[i] = call_launches_graph(ev) ? "(a CUDA graph)" : ev->launch.kernel;
}

static const char *last_kernel(struct waits *w, const struct trace_event *ev)
{
	enum last_of of = ev->has & HAS_STREAM ? OF_STREAM : OF_THREAD;
	uint32_t i = keys__find(&w->last_keys, last_key(w, ev, of));

	if (i == KEYS_NONE && of == OF_THREAD)
		i = keys__find(&w->last_keys, last_key(w, ev, OF_CONTEXT));
	return i < w->last_keys.cnt && i < w->last_cap ? w->last[i] : NULL;
}

static void add_for(struct waits *w, uint32_t fn, const char *kernel, const char *what, uint64_t ns)
{
	uint64_t key = pair_key((uintptr_t)(kernel ? kernel : what), fn);
	uint32_t i = keys_row(&w->for_keys, key, MEMLIMIT_WAITS, w->fors, w->for_cap);

	if (i == KEYS_NONE)
		return;
	w->fors[i].fn = fn;
	w->fors[i].kernel = kernel;
	w->fors[i].what = what;
	w->fors[i].cnt++;
	w->fors[i].total_ns += ns;
}

/* Number of the function, or KEYS_NONE. */
static uint32_t add_fn(struct keys *keys, struct wait_fn **fns, unsigned *cap,
		       const struct trace_event *ev, uint64_t ns)
{
	uint32_t i = keys_get(keys, (uintptr_t)ev->fn, 4096, MEMLIMIT_FUNCTIONS);
	struct wait_fn *f =
		i == KEYS_NONE ? NULL : grow(*fns, cap, i + 1, sizeof(*f), MEMLIMIT_FUNCTIONS);

	if (!f) {
		keys__undo(keys, i);
		return KEYS_NONE;
	}
	*fns = f;
	f += i;
	if (!f->fn) {
		f->fn = ev->fn;
		f->loghist = memlimit_new(MEMLIMIT_FUNCTIONS, sizeof(*f->loghist));
	}
	f->cnt++;
	f->total_ns += ns;
	f->max_ns = ns > f->max_ns ? ns : f->max_ns;
	f->off_cpu_ns += ev->off_cpu_ns < ns ? ev->off_cpu_ns : ns;
	if (f->loghist)
		loghist_add(f->loghist, ns);
	return i;
}

static void add_thread(struct waits *w, const struct trace_event *ev, uint64_t ns)
{
	uint32_t i = keys_row(&w->thread_keys, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS,
			      w->threads, w->thread_cap);

	if (i == KEYS_NONE)
		return;
	w->threads[i].pid = ev->pid;
	w->threads[i].tid = ev->tid;
	w->threads[i].comm = ev->comm;
	w->threads[i].cnt++;
	w->threads[i].total_ns += ns;
}

static bool precedes(const struct trace_event *ev, const struct wait_long *row)
{
	return call_precedes(ev, event_duration_ns(ev), row->ns, row->start_ns, row->id);
}

static void keep_long(struct waits *w, const struct trace_event *ev, uint64_t ns,
		      const char *kernel)
{
	unsigned i = w->list_cnt;

	if (!w->list_max || (i == w->list_max && !precedes(ev, &w->list[i - 1])))
		return;
	if (i < w->list_max)
		w->list_cnt++;
	else
		i--;
	for (; i && precedes(ev, &w->list[i - 1]); i--)
		w->list[i] = w->list[i - 1];
	w->list[i] = (struct wait_long){ev->start_ns, ns,      ev->id, ev->fn->name,
					kernel,	      ev->pid, ev->tid};
}

static void on_wait(struct waits *w, const struct trace_event *ev)
{
	uint64_t ns = event_duration_ns(ev);
	bool is_copy = ev->fn->op != OP_SYNC;
	const char *kernel = last_kernel(w, ev), *what = NULL;
	uint32_t fn = add_fn(&w->fn_keys, &w->fns, &w->fn_cap, ev, ns);

	w->cnt++;
	w->total_ns += ns;
	if (ev->unfinished) {
		w->unfinished_cnt++;
		if (ns > w->longest_unfinished.ns)
			w->longest_unfinished = (struct unfinished_wait){
				ev->fn, kernel, ev->start_ns, ns, ev->pid, ev->tid};
	} else if (ns > w->longest_returned_ns) {
		w->longest_returned_ns = ns;
	}
	callers__add(&w->callers, ev, ns);
	if (ev->has & HAS_OFF_CPU) {
		w->has_off_cpu = true;
		w->off_cpu_ns += ev->off_cpu_ns < ns ? ev->off_cpu_ns : ns;
	}
	if (is_copy)
		what = ev->dir == COPY_DIR_HTOD ? "copy HtoD" : "copy DtoH";
	else if (ev->has & HAS_CU_EVENT)
		what = "event";
	else if (!kernel)
		what = "no launch was seen";
	if (fn != KEYS_NONE)
		add_for(w, fn, what ? NULL : kernel, what, ns);
	add_thread(w, ev, ns);
	if (!ev->entry_only || ev->unfinished)
		keep_long(w, ev, ns, kernel);
}

static void waits_event(void *a, const struct trace_event *ev)
{
	struct waits *w = a;

	if (!call_took_time(ev) || !call_is_top(ev))
		return;
	if (call_launches_any(ev)) {
		for (int of = 0; of < LAST_CNT; of++)
			note_launch(w, ev, of);
	} else if (call_blocks(ev)) {
		on_wait(w, ev);
	} else if (call_may_block(ev)) {
		add_fn(&w->may_keys, &w->may, &w->may_cap, ev, event_duration_ns(ev));
	}
}

static int fn_by_time(const void *a, const void *b)
{
	const struct wait_fn *x = *(const struct wait_fn *const *)a;
	const struct wait_fn *y = *(const struct wait_fn *const *)b;

	return DESCENDING(x->total_ns, y->total_ns) ?: strcmp(x->fn->symbol, y->fn->symbol);
}

static const struct wait_fn **sorted_fns(const struct wait_fn *fns, unsigned cnt)
{
	const struct wait_fn **list = calloc(cnt + 1, sizeof(*list));

	for (unsigned i = 0; list && i < cnt; i++)
		list[i] = &fns[i];
	if (list)
		qsort(list, cnt, sizeof(*list), fn_by_time);
	return list;
}

static int for_by_time(const void *a, const void *b)
{
	const struct wait_for *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns)
		       ?: strcmp(x->kernel ?: x->what, y->kernel ?: y->what);
}

static int thread_by_time(const void *a, const void *b)
{
	const struct wait_thread *x = a, *y = b;

	return DESCENDING(x->total_ns, y->total_ns) ?: ASCENDING(x->tid, y->tid);
}

static void waits_finish(void *a)
{
	struct waits *w = a;

	w->by_time = sorted_fns(w->fns, w->fn_keys.cnt);
	w->may_by_time = sorted_fns(w->may, w->may_keys.cnt);
	callers__sort(&w->callers);
	if (w->for_keys.cnt)
		qsort(w->fors, w->for_keys.cnt, sizeof(*w->fors), for_by_time);
	if (w->thread_keys.cnt)
		qsort(w->threads, w->thread_keys.cnt, sizeof(*w->threads), thread_by_time);
}

static uint64_t wait_p95(const struct wait_fn *f)
{
	return f->loghist ? loghist_percentile(f->loghist, f->cnt, 0.95, f->max_ns) : 0;
}

/* Share of waiting in the time of the threads that wait and have a row. A thread waits for at most
 * the whole trace, even if its lines overlap. */
static double waits_share(const struct waits *w)
{
	uint64_t ns = 0, wall_ns = report_wall_ns(w->r);

	for (unsigned i = 0; i < w->thread_keys.cnt; i++) {
		law(w->threads[i].total_ns <= wall_ns);
		ns += w->threads[i].total_ns < wall_ns ? w->threads[i].total_ns : wall_ns;
	}
	return ratio_of(ns, (double)wall_ns * w->thread_keys.cnt);
}

#define SECTION_STATE struct waits
#define SECTION_ROWS  "report/time/wait.section"
#include "report/section_rows.h"

static void print_callers(const struct waits *w, const struct term *term)
{
	char line[512];

	for (unsigned i = 0; i < w->callers.keys.cnt && i < 5 && i < w->r->opts.top; i++) {
		const struct caller *c = &w->callers.rows[i];

		stack_line(c->stack, line, sizeof(line));
		term_para(term, "%s in %s %s from %s", HUMAN_CALL_TIME(w->r, c->total_ns),
			  HUMAN_COUNT(c->cnt), c->fn->name, line);
	}
}

static void waits_print(const void *a, const struct term *term)
{
	const struct waits *w = a;

	if (!w->cnt && !w->may_keys.cnt)
		return;
	if (!w->total_ns && !report_has_times(w->r))
		term_section(term, "Blocking calls", "%s by %s; their time was not recorded",
			     HUMAN_NOUNS(w->cnt, "call"),
			     HUMAN_NOUNS(w->thread_keys.cnt, "thread"));
	else
		term_section(term, "Blocking calls", "%s in %s by %s, %s of %s",
			     HUMAN_TIME(w->total_ns), HUMAN_NOUNS(w->cnt, "call"),
			     HUMAN_NOUNS(w->thread_keys.cnt, "thread"),
			     HUMAN_SHARE(waits_share(w), 1),
			     w->thread_keys.cnt > 1 ? "time of these periods" : "the trace");
	if (w->unfinished_cnt) {
		term_para(term, "%s of them had not returned; the longest is %s, after %s",
			  HUMAN_COUNT(w->unfinished_cnt), w->longest_unfinished.fn->name,
			  HUMAN_TIME(w->longest_unfinished.ns));
	}
	section_print(w->r, &waits_table, w, w, "functions", 0, term);
	section_print(w->r, &waits_table, w, w, "may_wait", 0, term);
	print_callers(w, term);
}

static unsigned top_fns(const struct wait_fn **list, unsigned cnt, struct wait_fn_result *to,
			unsigned max)
{
	unsigned n = 0;

	for (; list && n < cnt && n < max; n++)
		to[n] = (struct wait_fn_result){list[n]->fn->name, list[n]->cnt, list[n]->total_ns,
						list[n]->max_ns};
	return n;
}

void wait_result(const struct report *r, struct wait_result *res)
{
	const struct waits *w = r->an[AN_WAIT];

	memset(res, 0, sizeof(*res));
	if (!w)
		return;
	res->count = w->cnt;
	res->total_ns = w->total_ns;
	res->unfinished = w->longest_unfinished;
	res->longest_returned_ns = w->longest_returned_ns;
	res->thread_cnt = w->thread_keys.cnt;
	if (w->thread_keys.cnt) {
		res->thread_comm = w->threads[0].comm;
		res->thread_tid = w->threads[0].tid;
		res->thread_ns = w->threads[0].total_ns;
	}
	res->fn_cnt = top_fns(w->by_time, w->fn_keys.cnt, res->fns, 8);
	res->may_cnt = top_fns(w->may_by_time, w->may_keys.cnt, res->may, 2);
}

const struct analysis_ops wait_ops = {
	.needs = "sync transfer",
	.name = "waits",
	.new = waits__new,
	.event = waits_event,
	.finish = waits_finish,
	.section = &waits_table,
	.print = waits_print,
	.free = waits__free,
};
