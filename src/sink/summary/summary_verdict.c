/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The verdict of the summary. Iterations are unknown here. Most end with a wait, so their place is
 * taken by the time of the last waits: at least half of those after the first launch. With few
 * waits it is all the time after loading. Parts of the host's time and loading are those of
 * report/time/stage.c, the sentence is the report's.
 */
#include "summary_short.h"

#include "model/call.h"
#include "report/advice/verdict_priv.h"
#include "report/failure/failure.h"
#include "report/time/wait.h"

static void gap_add(struct host_clock *c, uint64_t start, uint64_t end)
{
	unsigned n = 0;

	if (c->gap_cnt == HOST_GAPS) {
		for (unsigned i = 0; i < HOST_GAPS; i += 2)
			c->gaps[n++] =
				(struct stage_gap){c->gaps[i].start_ns, c->gaps[i + 1].end_ns,
						   c->gaps[i].ns + c->gaps[i + 1].ns};
		c->gap_cnt = n;
	}
	c->gaps[c->gap_cnt++] = (struct stage_gap){start, end, end - start};
}

static void on_wait(struct host_clock *c)
{
	c->waited = c->now;
	c->waited.waits = ++c->now.waits;
	if (c->now.waits < c->turn_cnt)
		return;
	c->first = c->second;
	c->second = c->waited;
	c->turn_cnt = 2 * c->now.waits;
}

static bool is_work(const struct trace_event *ev)
{
	return call_submits(ev) || call_blocks(ev) || call_makes_context(ev) ||
	       (ev->fn->class == CLASS_MODULE && ev->fn->op == OP_LOAD);
}

void host_clock__call(struct host_clock *c, const struct trace_event *ev)
{
	struct host_time *now = &c->now;
	uint64_t ns = 0;

	if (!now->at_ns)
		now->at_ns = c->loaded.at_ns = c->first_ns = ev->start_ns;
	if (ev->start_ns < c->first_ns)
		c->first_ns = ev->start_ns;
	if (ev->start_ns > now->at_ns) {
		gap_add(c, now->at_ns, ev->start_ns);
		now->at_ns = ev->start_ns;
	}
	if (!is_work(ev)) {
		if (!c->in_tail)
			c->worked = *now;
		c->in_tail = true;
	} else {
		c->in_tail = false;
	}
	if (c->gap_cnt && c->gaps[c->gap_cnt - 1].end_ns > ev->start_ns)
		ns = stage_gaps_take(c->gaps, &c->gap_cnt, ev->start_ns, ev->end_ns);
	if (ev->end_ns > now->at_ns) {
		ns += ev->end_ns - now->at_ns;
		now->at_ns = ev->end_ns;
	}
	now->ns[stage_part_of(ev->fn)] += ns;
	if (ev->type == TYPE_TRANSFER && (ev->has & HAS_SIZE) && call_ran(ev))
		now->bytes += ev->size;
	if (c->has_launch) {
		if (call_blocks(ev))
			on_wait(c);
		return;
	}
	if (call_makes_context(ev) && !c->context_ns) {
		c->context_ns = now->at_ns;
		c->loaded = *now;
	} else if (call_bytes(ev, COPY_DIR_HTOD)) {
		c->loaded = *now;
	}
	c->first = c->second = c->loaded;
	c->has_launch = call_launches_any(ev) && !ev->unfinished;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void fill_startup(struct verdict *v, const struct host_clock *c, uint64_t begin_ns)
{
	uint64_t first_ns = later(c->first_ns, begin_ns);
	uint64_t made_ns = later(c->context_ns, first_ns), *phase = v->stages.phase_ns;

	phase[PHASE_BEFORE] = first_ns - begin_ns;
	phase[PHASE_INIT] = made_ns - first_ns;
	phase[PHASE_LOAD] = later(c->loaded.at_ns, made_ns) - made_ns;
	v->startup_ns = phase[PHASE_BEFORE] + phase[PHASE_INIT] + phase[PHASE_LOAD];
}

/* first: where the last waits begin, if there are enough. */
static void fill_run(struct verdict *v, const struct host_clock *c, const struct host_time *first)
{
	const struct host_time *from = &c->loaded, *to = c->in_tail ? &c->worked : &c->now;
	uint64_t *steady = v->stages.steady.ns;

	v->wait_cnt = c->now.waits - first->waits;
	if (v->wait_cnt >= VERDICT_ITERATIONS) {
		from = first;
		to = &c->waited;
	}
	v->stages.run_from_ns = from->at_ns;
	v->stages.run_to_ns = to->at_ns;
	if (to->at_ns <= from->at_ns)
		return;
	v->run_ns = steady[PART_OUTSIDE] = to->at_ns - from->at_ns;
	v->stages.run_bytes = to->bytes - from->bytes;
	for (unsigned i = 0; i < PART_OUTSIDE; i++) {
		steady[i] = to->ns[i] - from->ns[i];
		if (steady[i] > steady[PART_OUTSIDE])
			steady[i] = steady[PART_OUTSIDE];
		steady[PART_OUTSIDE] -= steady[i];
	}
}

/* A wait may have begun before the trace. */
static uint64_t hang_ns(const struct short_summary *x, uint64_t whole_ns)
{
	uint64_t returned = 0;

	for (size_t i = 0; i < x->v.fn_cnt; i++)
		if (x->v.fns[i].st.wait_cnt)
			returned = later(returned, x->v.fns[i].st.max_ns);
	if (!wait_is_hang(x->s->longest_wait_ns, returned))
		return 0;
	return x->s->longest_wait_ns < whole_ns ? x->s->longest_wait_ns : whole_ns;
}

/* The first failure that made a context unusable, or NULL. */
static const struct failure *first_fault(const struct summary *s)
{
	const struct failure *first = NULL;

	for (const struct failure *f = s->failures; f < s->failures + s->failure_kinds; f++)
		if (failure_is_sticky(f->fn, f->code) && (!first || f->first_ns < first->first_ns))
			first = f;
	return first;
}

#define SCOPE_SZ 64
/* What takes less time has no limit: the report may count a wait more or less to it. */
#define RUN_MIN_NS 10000000

static void make_verdict(const struct short_summary *x, const struct host_time *first,
			 bool is_unsure, struct verdict *v, char scope[SCOPE_SZ])
{
	const struct summary *s = x->s;
	const struct failure *failed = first_fault(s);
	uint64_t begin_ns = x->info->base_ns;
	/* A call that has not returned lasts until the trace stops, after its end line. */
	uint64_t end_ns = later(x->end->end_ns, s->host.now.at_ns);
	bool are_calls, has_copies = false;
	double missing;

	for (unsigned i = 0; i < TRANSFER_KIND_CNT; i++)
		has_copies |= s->transfers[i].cnt;
	*v = (struct verdict){
		.of_summary = true,
		.has_args = !x->no_args,
		.has_calls = !x->no_args && s->call_cnt,
		.has_work = s->launch_cnt || s->graph_launch_cnt || has_copies,
		.whole_ns = later(end_ns, begin_ns) - begin_ns,
		.proc_cnt = s->proc_cnt,
		.is_unsure = is_unsure,
		.scope = scope,
	};
	verdict_note_not_recorded(v, x->info, &x->v.lost, s->call_cnt);
	fill_startup(v, &s->host, begin_ns);
	fill_run(v, &s->host, first);
	gpu_period_of(&s->run_gpus, 0, v->stages.run_from_ns, v->stages.run_to_ns, &v->gpu);
	if (v->wait_cnt >= VERDICT_ITERATIONS)
		snprintf(scope, SCOPE_SZ, "the %s up to the last wait", HUMAN_TIME(v->run_ns));
	else
		snprintf(scope, SCOPE_SZ, "the time after start-up");
	missing = verdict_missing(&x->v.lost, s->call_cnt, s->event_cnt, &are_calls);
	verdict_of_summary(v, hang_ns(x, v->whole_ns), failed ? failed->fn : NULL,
			   failed ? failed->code : 0, missing, are_calls);
}

void short_verdict(const struct short_summary *x)
{
	const struct host_clock *c = &x->s->host;
	struct verdict v, late;
	char scope[SCOPE_SZ];

	if (!x->s->call_cnt && !x->s->run_gpus.cnt)
		return;
	/* If the later part has another limit, the earlier one may be warm-up. */
	make_verdict(x, &c->second, false, &late, scope);
	make_verdict(x, &c->first, false, &v, scope);
	if (v.run_ns < RUN_MIN_NS || (late.wait_cnt >= VERDICT_ITERATIONS && late.limit != v.limit))
		make_verdict(x, &c->first, true, &v, scope);
	short_blank(x);
	if (x->no_extra && v.gain_to)
		term_row(x->term, "Verdict", "%.*s%s", (int)v.gain_from, v.sentence,
			 v.sentence + v.gain_to);
	else
		term_row(x->term, "Verdict", "%s", v.sentence);
}
