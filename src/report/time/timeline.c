/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A limited number of steps, from the step of the first call on. They double in length when the
 * calls outgrow them. Steps are counted from the start of the trace, so the order of calls does not
 * matter: the first call to begin may return late. Only outermost calls count, so a thread is never
 * busy for more than 100 % of a step.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "report/collect.h"
#include "report/section.h"
#include "util/plural.h"

#define STEPS	      512
#define FIRST_STEP_NS 1000
#define THREADS_MAX   64
#define THREADS_SHOWN 12

struct row {
	uint32_t pid, tid;
	const char *comm;
	uint64_t ns[STEPS], total_ns;
};

struct timeline {
	const struct report *r;
	uint64_t first_ns, last_ns; /* from the start of the trace; last_ns 0: no call yet */
	uint64_t step_ns;	    /* ns[0] of a row is the step that has first_ns */
	struct row classes[CLASS_CNT];
	struct row *threads;
	struct keys keys;
	unsigned thread_cnt, thread_cap;
	uint64_t threads_rejected;
};

static void *timeline_new(struct report *r)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (t) {
		t->r = r;
		t->step_ns = FIRST_STEP_NS;
	}
	return t;
}

/* odd: the first step is the second of a pair. */
static void halve(struct row *row, unsigned odd)
{
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t ns = row->ns[i];

		row->ns[i] = 0;
		row->ns[(i + odd) / 2] += ns;
	}
}

static void shift(struct row *row, unsigned steps)
{
	memmove(row->ns + steps, row->ns, (STEPS - steps) * sizeof(*row->ns));
	memset(row->ns, 0, steps * sizeof(*row->ns));
}

static void change_rows(struct timeline *t, void (*change)(struct row *, unsigned), unsigned by)
{
	for (int i = 0; i < CLASS_CNT; i++)
		change(&t->classes[i], by);
	for (unsigned i = 0; i < t->thread_cnt; i++)
		change(&t->threads[i], by);
}

static void make_room(struct timeline *t, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first, last;

	if (!t->last_ns)
		t->first_ns = from_ns;
	first = from_ns < t->first_ns ? from_ns : t->first_ns;
	last = to_ns > t->last_ns ? to_ns : t->last_ns;
	while (last / t->step_ns - first / t->step_ns >= STEPS) {
		change_rows(t, halve, t->first_ns / t->step_ns % 2);
		t->step_ns *= 2;
	}
	if (first < t->first_ns)
		change_rows(t, shift, t->first_ns / t->step_ns - first / t->step_ns);
	t->first_ns = first;
	t->last_ns = last;
}

static void add(const struct timeline *t, struct row *row, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t at = from_ns, first_step = t->first_ns / t->step_ns;

	row->total_ns += to_ns - from_ns;
	while (at < to_ns) {
		uint64_t step = at / t->step_ns, stop = (step + 1) * t->step_ns;

		stop = stop < to_ns ? stop : to_ns;
		row->ns[step - first_step] += stop - at;
		at = stop;
	}
}

/* Nanoseconds from the start of the trace. */
static uint64_t since_start(const struct timeline *t, uint64_t ns)
{
	return ns > t->r->base_ns ? ns - t->r->base_ns : 0;
}

static struct row *row_of(struct timeline *t, const struct trace_event *ev)
{
	uint64_t key = thread_key(ev->pid, ev->tid);
	/* More threads get no row; the output mentions that there are some. */
	uint32_t n = memlimit_has(&t->keys.rows, 1, THREADS_MAX)
			     ? keys_get(&t->keys, key, THREADS_MAX, MEMLIMIT_THREADS)
			     : keys__find(&t->keys, key);
	struct row *grown;

	if (n == KEYS_NONE) {
		t->threads_rejected++;
		return NULL;
	}
	if (n >= t->thread_cnt) {
		grown = grow(t->threads, &t->thread_cap, n + 1, sizeof(*grown), MEMLIMIT_THREADS);
		if (!grown) {
			keys__undo(&t->keys, n);
			return NULL;
		}
		t->threads = grown;
		t->thread_cnt = n + 1;
		t->threads[n].pid = ev->pid;
		t->threads[n].tid = ev->tid;
	}
	t->threads[n].comm = ev->comm;
	return &t->threads[n];
}

static void timeline_event(void *a, const struct trace_event *ev)
{
	struct timeline *t = a;
	struct row *thread;
	uint64_t from, to;

	if (ev->kind != EVENT_CALL || !ev->fn || !call_is_top(ev) || !event_duration_ns(ev))
		return;
	from = since_start(t, ev->start_ns);
	to = since_start(t, ev->end_ns);
	if (to <= from)
		return;
	make_room(t, from, to);
	add(t, &t->classes[ev->fn->class], from, to);
	thread = row_of(t, ev);
	if (thread)
		add(t, thread, from, to);
}

static unsigned steps_of(const struct timeline *t)
{
	return t->last_ns ? t->last_ns / t->step_ns - t->first_ns / t->step_ns + 1 : 0;
}

#define SECTION_STATE struct timeline
#define SECTION_ROWS  "report/time/timeline.section"
#include "report/section_rows.h"

/* Prints one character per column, by its share of time. */
static void put_bar(const struct timeline *t, const struct term *term, const struct row *row,
		    unsigned columns)
{
	static const char glyphs[] = " .:-=+*#@";
	uint64_t span = t->last_ns - t->first_ns;
	double begin = (double)(t->first_ns % t->step_ns) / t->step_ns;

	for (unsigned c = 0; c < columns; c++) {
		double from = begin + (double)span * c / columns / t->step_ns;
		double to = begin + (double)span * (c + 1) / columns / t->step_ns, ns = 0;

		for (unsigned i = from; i < STEPS && i < to; i++) {
			double lo = i > from ? i : from, hi = i + 1 < to ? i + 1 : to;

			ns += row->ns[i] * (hi - lo);
		}
		ns /= (to - from) * t->step_ns;
		/* A small share is still visible. */
		putc(ns <= 0 ? ' ' : glyphs[1 + (ns >= 1 ? 7 : (unsigned)(ns * 8))], term->f);
	}
	putc('\n', term->f);
}

static void timeline_print(const void *a, const struct term *term)
{
	const struct timeline *t = a;
	unsigned columns = term->width > 40 ? term->width - 20 : 20;

	if (!t->last_ns)
		return;
	term_section(term, "Timeline",
		     "%s from the first call (%s after the start of the trace) to the end of the "
		     "last",
		     HUMAN_TIME(t->last_ns - t->first_ns),
		     HUMAN_TIME(report_since_begin(t->r, t->r->base_ns + t->first_ns)));
	term_para(term, "Share of the time in calls: . some, : 12 %%, - 25, = 37, + 50, * 62, "
			"# 75, @ 87 and more");
	columns = term->is_markdown ? 100 : columns;
	term_fence(term);
	for (int i = 0; i < CLASS_CNT; i++) {
		if (!t->classes[i].total_ns)
			continue;
		fprintf(term->f, "  %-15s |", api_class_name(i));
		put_bar(t, term, &t->classes[i], columns);
	}
	for (unsigned i = 0; i < t->thread_cnt && t->thread_cnt > 1 && i < THREADS_SHOWN; i++) {
		fprintf(term->f, "  thread %-8u |", t->threads[i].tid);
		put_bar(t, term, &t->threads[i], columns);
	}
	term_fence(term);
	if (t->thread_cnt > THREADS_SHOWN)
		term_para(term, "and %s%u more thread%s", t->threads_rejected ? "at least " : "",
			  t->thread_cnt - THREADS_SHOWN, plural(t->thread_cnt - THREADS_SHOWN));
}

static void timeline_free(void *a)
{
	struct timeline *t = a;

	keys__free(&t->keys);
	memlimit_free(t->threads);
	free(t);
}

const struct analysis_ops timeline_ops = {
	.name = "timeline",
	.new = timeline_new,
	.event = timeline_event,
	.section = &timeline_table,
	.print = timeline_print,
	.free = timeline_free,
};
