/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds causes of lost time, and advice. A finding is a row of findings.def whose rule applies to
 * the results of the other analyses and to the counts made here.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

#include "decode/api_values.h"
#include "model/call.h"
#include "model/failure.h"
#include "findings_priv.h"
#include "verdict_priv.h"
#include "report/step/step.h"
#include "report/time/stage.h"
#include "util/order.h"

#define SMALL_SUBMITS 4
#define SMALL_BYTES   (1 << 20)
#define SMALL_COPY    65536
#define STEADY_MIN    0.05
#define WORTH	      0.01    /* of the steady state, or of the trace */
#define KNOWN	      0.2     /* of the steady state: a gain that precedes the GPU as the limit */
#define BUBBLE_MAX_NS 1000000 /* a longer pause has other causes than the wait */

static void findings__free(void *a)
{
	struct findings *f = a;

	for (int i = 0; i < HOT_CNT; i++) {
		memlimit_free(f->calls[i]);
		memlimit_share_free(&f->call_rows[i]);
		keys__free(&f->hot[i].threads);
	}
	keys__free(&f->query_threads);
	keys__free(&f->memory_threads);
	memlimit_share_free(&f->error_rows);
	keys__free(&f->thread_keys);
	memlimit_free(f->threads);
	free(f->list);
	free(f);
}

static void keep(struct findings *f, enum hot_kind kind, const struct trace_event *ev)
{
	struct hot_call *calls;

	/* Rejected calls matter only with iterations: findings_finish() reports them then. */
	if (!memlimit_has(&f->call_rows[kind], 1, MEMLIMIT_CALLS_MAX)) {
		f->unkept_cnt++;
		return;
	}
	if (!memlimit_charge(&f->call_rows[kind], 1, MEMLIMIT_CALLS_MAX, MEMLIMIT_CALLS))
		return;
	calls = grow(f->calls[kind], &f->cap[kind], f->cnt[kind] + 1, sizeof(*calls),
		     MEMLIMIT_CALLS);
	if (!calls) {
		memlimit_uncharge(&f->call_rows[kind], NULL, 1);
		return;
	}
	f->calls[kind] = calls;
	calls[f->cnt[kind]++] =
		(struct hot_call){ev->start_ns, event_duration_ns(ev), ev->pid, ev->tid};
}

/* Memory that the driver allocates each time, not from a pool. */
static enum hot_kind hot_memory(const struct trace_event *ev)
{
	int makes = call_allocates(ev);

	return makes > 0 ? HOT_ALLOC : makes < 0 ? HOT_FREE : HOT_CNT;
}

static void keep_hot(struct findings *f, const struct trace_event *ev)
{
	enum hot_kind memory = hot_memory(ev);

	if (memory != HOT_CNT) {
		keep(f, memory, ev);
		return;
	}
	switch (ev->fn->op) {
	case OP_LOAD:
	case OP_LINK:
		if (ev->fn->class == CLASS_MODULE)
			keep(f, HOT_MODULE, ev);
		break;
	case OP_INSTANTIATE:
	case OP_UPDATE:
		if (ev->fn->class == CLASS_GRAPH)
			keep(f, HOT_GRAPH, ev);
		break;
	case OP_QUERY:
		f->query_cnt++;
		keys_get(&f->query_threads, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS_MAX,
			 MEMLIMIT_THREADS);
		f->query_ns += event_duration_ns(ev);
		keep(f, HOT_QUERY, ev);
		break;
	default:
		if (ev->type == TYPE_TRANSFER && call_may_block(ev))
			keep(f, HOT_MAY_WAIT, ev);
	}
}

static struct find_thread *thread_of(struct findings *f, const struct trace_event *ev)
{
	uint32_t i = keys_row(&f->thread_keys, thread_key(ev->pid, ev->tid), MEMLIMIT_THREADS,
			      f->threads, f->thread_cap);

	if (i == KEYS_NONE)
		return NULL;
	return &f->threads[i];
}

/* Consecutive small copies in one direction could be one copy: counts all but the first. */
static void on_copy_in_row(struct findings *f, struct find_thread *t, const struct trace_event *ev)
{
	bool small = ev->type == TYPE_TRANSFER && (ev->has & HAS_SIZE) && ev->size < SMALL_COPY &&
		     (ev->dir == COPY_DIR_HTOD || ev->dir == COPY_DIR_DTOH);
	uint64_t dir = small ? ev->dir + 1 : 0;

	if (small && t->small_cpy_dir == dir) {
		f->row_threads += !t->has_row;
		t->has_row = true;
		f->row_cnt++;
		f->row_ns += event_duration_ns(ev);
		spread__add(&f->rows, ev->start_ns, event_duration_ns(ev));
		if (!f->row_at)
			f->row_at = ev->start_ns;
	}
	t->small_cpy_dir = dir;
}

static void note_launch(struct since_wait *s, const char *kernel)
{
	for (unsigned i = 0; i < s->cnt; i++)
		if (s->kernels[i] == kernel)
			return;
	if (kernel && s->cnt < SINCE_MAX)
		s->kernels[s->cnt++] = kernel;
	else
		s->more++;
}

const struct since_wait *findings_since_wait(const struct report *r, uint32_t pid, uint32_t tid)
{
	struct findings *f = r->an[AN_FINDINGS];
	uint32_t i = keys__find(&f->thread_keys, thread_key(pid, tid));

	return i == KEYS_NONE ? NULL : &f->threads[i].since;
}

static void on_submit(struct findings *f, struct find_thread *t, const struct trace_event *ev)
{
	uint64_t pause;

	if (t->small_end_ns && ev->start_ns > t->small_end_ns) {
		pause = ev->start_ns - t->small_end_ns;
		pause = pause < BUBBLE_MAX_NS ? pause : BUBBLE_MAX_NS;
		f->bubble_ns += pause;
		spread__add(&f->bubbles, ev->start_ns, pause);
	}
	t->small_end_ns = 0;
	/* The work of a graph is not little. */
	t->submits += call_does(ev, DOES_LAUNCH_GRAPH) ? SMALL_SUBMITS + 1 : 1;
	if (call_launches_any(ev))
		note_launch(&t->since, ev->launch.kernel);
	if (ev->type == TYPE_TRANSFER && (ev->has & HAS_SIZE))
		t->bytes += ev->size;
	on_copy_in_row(f, t, ev);
}

/* Keeps the place of most small waits, if one place has more than half of them. */
static void vote_for_place(struct findings *f, const struct trace_event *ev)
{
	const struct stack_frame *frame = step_frame_in(ev->stack), *now = f->small_frame;

	if (!f->small_votes) {
		f->small_fn = ev->fn;
		f->small_frame = now = frame;
	}
	if (ev->fn == f->small_fn && !frame == !now &&
	    (!frame || (frame->symbol == now->symbol && frame->module == now->module &&
			frame->line == now->line)))
		f->small_votes++;
	else
		f->small_votes--;
}

static void on_wait(struct findings *f, struct find_thread *t, const struct trace_event *ev)
{
	if (!ev->unfinished)
		t->since = (struct since_wait){0};
	if (t->submits) {
		f->wait_cnt++;
		if (t->submits <= SMALL_SUBMITS && t->bytes < SMALL_BYTES) {
			f->small_threads += !t->has_small;
			t->has_small = true;
			f->small_wait_cnt++;
			f->small_wait_ns += event_duration_ns(ev);
			t->small_end_ns = ev->end_ns;
			if (!f->small_wait_at)
				f->small_wait_at = ev->start_ns;
			vote_for_place(f, ev);
		}
	}
	t->submits = t->bytes = 0;
}

static void on_error(struct findings *f, const struct trace_event *ev)
{
	const struct find_thread *t = thread_of(f, ev);
	struct find_error *e;
	unsigned i;

	f->deinit_cnt += failure_is_at_exit(ev->fn, ev->result);
	if (!failure_matters(ev->fn, ev->result))
		return;
	for (i = 0; i < f->error_cnt; i++) {
		e = &f->errors[i];
		if (e->fn == ev->fn && e->result == ev->result && e->pid == ev->pid)
			break;
	}
	e = &f->errors[i];
	if (i == f->error_cnt) {
		if (!memlimit_charge(&f->error_rows, 1, ERRORS_MAX, MEMLIMIT_ERRORS))
			return;
		f->error_cnt++;
		*e = (struct find_error){
			.fn = ev->fn,
			.result = ev->result,
			.pid = ev->pid,
			.first_ns = ev->start_ns,
			.size = ev->has & HAS_SIZE ? ev->size : 0,
			.comm = ev->comm,
		};
		if (t)
			e->since = t->since;
		f->pending++;
	}
	e->cnt++;
}

static void on_went_on(struct findings *f, uint32_t pid)
{
	for (unsigned i = 0; i < f->error_cnt; i++) {
		if (f->errors[i].ignored || f->errors[i].pid != pid)
			continue;
		f->errors[i].ignored = true;
		f->pending--;
	}
}

static void findings_event(void *a, const struct trace_event *ev)
{
	struct findings *f = a;
	struct find_thread *t;
	bool waits, submits;

	if (!call_was_made(ev) || !call_is_outer(ev))
		return;
	if (ev->is_error)
		on_error(f, ev);
	if (ev->is_error || !call_is_top(ev))
		return;
	keep_hot(f, ev);
	waits = call_blocks(ev);
	submits = call_submits(ev);
	if (!waits && !submits)
		return;
	if (f->pending)
		on_went_on(f, ev->pid);
	t = thread_of(f, ev);
	if (t && submits)
		on_submit(f, t, ev);
	if (t && waits)
		on_wait(f, t, ev);
}

static void sum_hot(struct findings *f, enum hot_kind kind)
{
	uint64_t most = 0, middle_ns = f->it.steady_ns / 2 + f->run_to_ns / 2;
	struct hot_sum *s = &f->hot[kind];

	for (unsigned i = 0; i < f->cnt[kind]; i++) {
		const struct hot_call *c = &f->calls[kind][i];

		if (c->start_ns < f->it.steady_ns || !iter_round_at(f->r, c->pid, c->start_ns))
			continue;
		keys_get(&s->threads, thread_key(c->pid, c->tid), MEMLIMIT_THREADS_MAX,
			 MEMLIMIT_THREADS);
		if (kind == HOT_ALLOC || kind == HOT_FREE)
			keys_get(&f->memory_threads, thread_key(c->pid, c->tid),
				 MEMLIMIT_THREADS_MAX, MEMLIMIT_THREADS);
		s->cnt++;
		s->late_cnt += c->start_ns >= middle_ns;
		s->ns += c->ns;
		if (c->ns >= most) {
			most = c->ns;
			s->at_ns = c->start_ns;
		}
	}
}

/* The limit that a finding is about. */
static const uint8_t limit_of[FINDING_CNT] = {
	[FINDING_gpu_bound] = LIMIT_GPU,	  [FINDING_plans_rebuilt] = LIMIT_HOST,
	[FINDING_launch_bound] = LIMIT_HOST,	  [FINDING_host_bound] = LIMIT_HOST,
	[FINDING_decode_host] = LIMIT_HOST,	  [FINDING_idle_between] = LIMIT_HOST,
	[FINDING_small_syncs] = LIMIT_WAITS,	  [FINDING_copies_alone] = LIMIT_TRANSFERS,
	[FINDING_pageable] = LIMIT_TRANSFERS,	  [FINDING_startup_host] = LIMIT_STARTUP,
	[FINDING_startup_init] = LIMIT_STARTUP,	  [FINDING_startup_load] = LIMIT_STARTUP,
	[FINDING_startup_warmup] = LIMIT_STARTUP, [FINDING_hot_alloc] = LIMIT_MEMORY,
	[FINDING_hot_module] = LIMIT_MODULES,	  [FINDING_comm_alone] = LIMIT_COLLECTIVES,
	[FINDING_hot_graph] = LIMIT_HOST,	  [FINDING_data_loading] = LIMIT_HOST,
	[FINDING_other_thread] = LIMIT_HOST,	  [FINDING_python_lock] = LIMIT_HOST,
	[FINDING_host_work] = LIMIT_HOST,	  [FINDING_small_copies] = LIMIT_TRANSFERS,
	[FINDING_late_rank] = LIMIT_COLLECTIVES,  [FINDING_small_collectives] = LIMIT_COLLECTIVES,
};

/* FINDINGS_ORDER */
static int by_severity(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	uint64_t x_ns = finding_steady_ns(x), y_ns = finding_steady_ns(y);

	if (x->rule->severity != y->rule->severity)
		return x->rule->severity < y->rule->severity ? -1 : 1;
	if (x->is_limit != y->is_limit)
		return x->is_limit ? -1 : 1;
	return DESCENDING(x_ns, y_ns) ?: DESCENDING(x->lost_ns, y->lost_ns)
	       ?: ASCENDING(x->rule, y->rule);
}

static struct finding *listed(struct findings *f, unsigned rule)
{
	for (unsigned i = 0; i < f->list_cnt; i++)
		if (f->list[i].rule == &finding_rules[rule])
			return &f->list[i];
	return NULL;
}

static void drop(struct findings *f, unsigned rule)
{
	struct finding *x = listed(f, rule);

	if (x)
		*x = f->list[--f->list_cnt];
}

static uint64_t lost_to(struct findings *f, unsigned rule)
{
	const struct finding *x = listed(f, rule);

	return x ? x->lost_ns : 0;
}

/* Several findings may report that the GPU waits for the host. Keeps the most specific one:
 * decoding; a place between calls; or idle time between iterations. The last two must be at least
 * half of the loss. */
static void keep_one_of_host(struct findings *f)
{
	uint64_t launch = lost_to(f, FINDING_launch_bound) + lost_to(f, FINDING_host_bound);
	uint64_t idle = lost_to(f, FINDING_idle_between);
	uint64_t place = lost_to(f, FINDING_data_loading) + lost_to(f, FINDING_other_thread) +
			 lost_to(f, FINDING_python_lock);
	bool decodes = listed(f, FINDING_decode_host) && decode_pid(f) == f->it.pid;
	bool is_launch = listed(f, FINDING_launch_bound) || listed(f, FINDING_host_bound);
	bool is_placed = place && place >= idle / 2;
	bool is_idle = listed(f, FINDING_idle_between) && !is_placed && idle >= launch / 2;

	/* A CUDA graph does not shorten long times between calls. */
	if (is_placed && f->it.dist[ITS_GRAPHS].median >= 1)
		launch = launch > place ? launch - place : 0;
	if (decodes) {
		drop(f, FINDING_data_loading);
		drop(f, FINDING_other_thread);
	}
	if (decodes || is_placed || (is_launch && !is_idle))
		drop(f, FINDING_idle_between);
	/* Only a replay tells the two apart. */
	if (decodes ||
	    (listed(f, FINDING_idle_between) && !listed(f, FINDING_idle_between)->is_replayed))
		drop(f, FINDING_host_work);
	if (decodes || is_idle || (is_placed && launch < place / 4)) {
		drop(f, FINDING_launch_bound);
		drop(f, FINDING_host_bound);
	}
}

/* How much faster kernels can be is not known: large gains that are known precede that. */
static void put_known_first(struct findings *f)
{
	struct finding *gpu = listed(f, FINDING_gpu_bound), x;

	if (!gpu || !gpu->is_limit)
		return;
	for (struct finding *at = gpu + 1; at < f->list + f->list_cnt; at++) {
		if (!at->is_replayed || finding_steady_ns(at) < KNOWN * f->run_ns)
			continue;
		x = *at;
		memmove(gpu + 1, gpu, (at - gpu) * sizeof(x));
		*gpu++ = x;
	}
}

/* Those that conclude from the time outside some calls. */
static bool needs_all(unsigned rule)
{
	switch (rule) {
	case FINDING_launch_bound:
	case FINDING_gpu_bound:
	case FINDING_startup_host:
	case FINDING_startup_init:
	case FINDING_startup_load:
	case FINDING_startup_warmup:
	case FINDING_decode_host:
	case FINDING_idle_between:
		return true;
	}
	return false;
}

static void findings_finish(void *a)
{
	struct findings *f = a;
	struct verdict *v = f->r->an[AN_VERDICT];
	struct stage_result stages;

	iter_result(f->r, &f->it);
	stage_result(f->r, &stages);
	verdict_decide(v);
	f->run_ns = v->run_ns;
	f->run_from_ns = stages.run_from_ns;
	f->run_to_ns = stages.run_to_ns;
	f->steady_cnt = f->it.count - f->it.warmup;
	for (int i = 0; f->steady_cnt && i < HOT_CNT; i++)
		sum_hot(f, i);
	if (f->steady_cnt)
		memlimit_reject_cnt(MEMLIMIT_CALLS, f->unkept_cnt);
	f->list = calloc(FINDING_CNT, sizeof(*f->list));
	for (unsigned i = 0; f->list && i < FINDING_CNT; i++) {
		const struct rule *rule = &finding_rules[i];
		struct finding *x = &f->list[f->list_cnt];

		*x = (struct finding){.rule = rule, .confidence = rule->confidence};
		if ((v->not_recorded && !v->gpu.whole_ns && needs_all(i)) || !rule->applies(f, x))
			continue;
		/* A loss is located only to within a slot of the time histogram. */
		if (x->steady < STEADY_MIN)
			x->steady = 0;
		/* Each thread or device has the whole time of the trace. */
		if (x->clocks > 1)
			x->lost_ns /= x->clocks;
		if (x->is_of_steps && finding_steady_ns(x) < WORTH * f->run_ns &&
		    x->lost_ns - finding_steady_ns(x) < WORTH * report_wall_ns(f->r))
			continue;
		/* Overlapping or unordered lines add up to more than the trace. */
		if (x->lost_ns > report_wall_ns(f->r))
			x->lost_ns = report_wall_ns(f->r);
		finding_fill(x, rule->brief, x->brief, sizeof(x->brief));
		finding_fill(x, rule->text, x->text, sizeof(x->text));
		finding_fill(x, rule->confidence_reason, x->confidence_reason,
			     sizeof(x->confidence_reason));
		finding_fill(x, rule->advice, x->advice, sizeof(x->advice));
		finding_format_gain(f, x);
		x->is_limit = limit_of[i] != LIMIT_UNKNOWN && limit_of[i] == v->limit;
		f->list_cnt++;
	}
	keep_one_of_host(f);
	if (f->list_cnt)
		qsort(f->list, f->list_cnt, sizeof(*f->list), by_severity);
	put_known_first(f);
}

const struct analysis_ops findings_ops = {
	.name = "findings",
	.size = STATE_SIZE(struct findings),
	.event = findings_event,
	.finish = findings_finish,
	.section = &findings_table,
	.is_list = true,
	.print = findings_print,
	.free = findings__free,
	.of_args = true,
};
