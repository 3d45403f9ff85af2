/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "budget.h"

#include "decode/value.h"
#include "util/log.h"
#include "thread_overhead.h"
#include "tracer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Interval between checks of the overhead. */
#define PERIOD_NS 250000000ull
/* A function goes back up if the total then stays below this part of the budget... */
#define ROOM 0.7
/* ...and it has been down this long; each fall doubles it. */
#define HOLD_NS	    1000000000ull
#define HOLD_NS_MAX 32000000000ull

/* From expensive to cheap. */
enum step { STEP_TRACE, STEP_SAMPLE_10, STEP_SAMPLE_100, STEP_COUNT, STEP_ENTRIES, STEP_CNT };

static const struct fn_level levels[STEP_CNT] = {
	[STEP_TRACE] = {.level = CT_LEVEL_TRACE, .one_of = 1},
	[STEP_SAMPLE_10] = {.level = CT_LEVEL_SAMPLE, .one_of = 10},
	[STEP_SAMPLE_100] = {.level = CT_LEVEL_SAMPLE, .one_of = 100},
	[STEP_COUNT] = {.level = CT_LEVEL_COUNT, .one_of = 1},
	[STEP_ENTRIES] = {.level = CT_LEVEL_COUNT, .one_of = 1, .entry_only = true},
};

static const char *const step_names[STEP_CNT] = {"trace", "sample 1/10", "sample 1/100", "count",
						 "count entries"};

struct fn_use {
	uint64_t recorded;	      /* records so far */
	uint64_t counted;	      /* calls counted by the producers so far */
	uint64_t was, rate;	      /* calls before this period, and in it */
	uint64_t changed_ns, hold_ns; /* time of the last level change; how long it stays down */
	uint8_t step, first_step;     /* first: set by the command line */
};

struct budget {
	struct budget_opts o;
	struct fn_use fns[CT_MAX_FUNCS];
	struct thread_overhead overhead;
	uint64_t last_ns, took_ns; /* the last period's end and length */
	double share;		   /* overhead of the busiest thread, in the last period */
	double spent_ns;	   /* by all threads in that period */
	bool warned;		   /* that the limit cannot be kept */
};

struct budget *budget__new(const struct budget_opts *o)
{
	struct budget *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->o = *o;
	for (unsigned id = 0; id < CT_MAX_FUNCS; id++) {
		bool entry_only = fnset__is_marked(o->fns, FNSET_NO_RETURN, id);

		if (fnset__is_marked(o->fns, FNSET_COUNT, id))
			b->fns[id].step = entry_only ? STEP_ENTRIES : STEP_COUNT;
		b->fns[id].first_step = b->fns[id].step;
		b->fns[id].hold_ns = HOLD_NS;
	}
	return b;
}

void budget__free(struct budget *b)
{
	if (!b)
		return;
	thread_overhead__clear(&b->overhead);
	free(b);
}

void budget__call(struct budget *b, const struct trace_event *ev)
{
	int id = fnset__id_of(b->o.fns, ev->fn);

	if (id >= 0)
		b->fns[id].recorded++;
}

/* Cost of a call at a step. */
static double cost_at(const struct budget *b, enum step step)
{
	const struct attach_cost *c = &b->o.cost;

	switch (step) {
	case STEP_TRACE:
		return c->record;
	case STEP_SAMPLE_10:
		return c->count + (c->record - c->count) / 10;
	case STEP_SAMPLE_100:
		return c->count + (c->record - c->count) / 100;
	case STEP_COUNT:
		return c->count;
	default:
		return c->entry_count ? c->entry_count : c->count;
	}
}

struct look {
	struct budget *b;
	uint64_t busiest_ns;
};

static void look_at_thread(void *ctx, const struct seen_thread *t, uint64_t since_ns)
{
	struct look *l = ctx;

	l->b->spent_ns += since_ns;
	if (since_ns > l->busiest_ns)
		l->busiest_ns = since_ns;
}

static void look_at_count(void *ctx, unsigned source, const struct ct_count_key *key,
			  const struct ct_count *c)
{
	struct budget *b = ctx;

	if (key->func_id < CT_MAX_FUNCS)
		b->fns[key->func_id].counted += ct_count_calls(c) + c->entered;
}

static void look(struct budget *b)
{
	const struct count_reader counts = {.count = look_at_count, .ctx = b};
	struct look l = {.b = b};

	b->spent_ns = 0;
	thread_overhead__update(&b->overhead, b->o.sources, look_at_thread, &l);
	b->share = (double)l.busiest_ns / b->took_ns;
	for (unsigned id = 0; id < fnset__cnt(b->o.fns); id++)
		b->fns[id].counted = 0;
	sources__read_counts(b->o.sources, &counts);
	for (unsigned id = 0; id < fnset__cnt(b->o.fns); id++) {
		struct fn_use *f = &b->fns[id];
		uint64_t calls = f->recorded + f->counted;

		/* Counts shrink when processes have ended. */
		f->rate = calls > f->was ? calls - f->was : 0;
		f->was = calls;
	}
}

static void set_step(struct budget *b, unsigned id, enum step step, uint64_t now_ns)
{
	const struct api_fn *fn = fnset__fn(b->o.fns, id);
	struct fn_use *f = &b->fns[id];
	struct trace_event ev = tracer_event("level", fn->symbol, now_ns);
	char why[160];

	ev.tracer.from = step_names[f->step];
	ev.tracer.to = step_names[step];
	snprintf(why, sizeof(why),
		 "tracing takes %.2f %% of the busiest thread's time, %s %.2f %%; %.0f calls/s",
		 b->share * 100, step > f->step ? "more than" : "of", b->o.max_share * 100,
		 f->rate * 1e9 / b->took_ns);
	ev.tracer.why = why;
	if (sources__set_level(b->o.sources, id, &levels[step]))
		return;
	dbg("%s: %s to %s: %s", ev.name, ev.tracer.from, ev.tracer.to, why);
	if (step > f->step && f->changed_ns && f->hold_ns < HOLD_NS_MAX)
		f->hold_ns *= 2;
	f->step = step;
	f->changed_ns = now_ns;
	b->o.fn(b->o.ctx, &ev);
}

/* Change of b->spent_ns if the function moved to a step, negative for a saving. A step down for
 * which no saving was measured counts as a small saving, so that it is tried. */
static double change(const struct budget *b, const struct fn_use *f, enum step to)
{
	double each = cost_at(b, to) - cost_at(b, f->step);

	return f->rate * (to > f->step && each > -1 ? -1 : each);
}

/* Without these records the model would miss kernel names, or report freed memory as allocated. */
static bool is_needed(const struct budget *b, unsigned id)
{
	struct ct_spec spec;

	api_fn_spec(fnset__fn(b->o.fns, id), &spec);
	return spec.flags & CT_SPEC_F_KEEP;
}

/* There are two steps down: counted, and counted at the entry only. */
static enum step below(const struct fn_use *f)
{
	return f->step < STEP_COUNT ? STEP_COUNT : STEP_ENTRIES;
}

static int most_saved(const struct budget *b)
{
	double most = 0;
	int best = -1;

	for (unsigned id = 0; id < fnset__cnt(b->o.fns); id++) {
		const struct fn_use *f = &b->fns[id];
		double saved = -change(b, f, below(f));

		/* Counting all functions comes first, because it loses less. */
		if (f->step == STEP_COUNT)
			saved /= 1000;
		if (saved <= most || f->step == STEP_ENTRIES || is_needed(b, id))
			continue;
		most = saved;
		best = id;
	}
	return best;
}

static void spend_less(struct budget *b, uint64_t now_ns)
{
	double left = b->spent_ns;

	while (left > 0 && b->share * left / b->spent_ns > b->o.max_share) {
		int id = most_saved(b);

		if (id < 0) {
			if (!b->warned)
				warn("--max-overhead: the target is exceeded: tracing takes %.1f %% of the time of "
				     "the busiest thread, and counting cannot be reduced further: exclude "
				     "functions with -e",
				     b->share * 100);
			b->warned = true;
			return;
		}
		left += change(b, &b->fns[id], below(&b->fns[id]));
		set_step(b, id, below(&b->fns[id]), now_ns);
	}
}

/* Lowers one function by one step; the next period shows the effect. */
static void spend_more(struct budget *b, uint64_t now_ns)
{
	for (unsigned id = 0; id < fnset__cnt(b->o.fns); id++) {
		struct fn_use *f = &b->fns[id];
		double room;

		if (f->step == f->first_step || now_ns - f->changed_ns < f->hold_ns)
			continue;
		for (enum step to = f->first_step; to < f->step; to++) {
			/* A period without a call has no share to compare. */
			room = b->spent_ns ? 1 + change(b, f, to) / b->spent_ns : 1;
			if (b->share * room > b->o.max_share * ROOM)
				continue;
			set_step(b, id, to, now_ns);
			return;
		}
	}
}

void budget__tick(struct budget *b, uint64_t now_ns)
{
	if (!b->last_ns)
		b->last_ns = now_ns;
	b->took_ns = now_ns - b->last_ns;
	if (b->took_ns < PERIOD_NS)
		return;
	b->last_ns = now_ns;
	look(b);
	if (b->share > b->o.max_share)
		spend_less(b, now_ns);
	else
		spend_more(b, now_ns);
}
