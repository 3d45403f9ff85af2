/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Idle periods of the GPU that the host can prove. A period starts when a call returns after which
 * all work on the process's streams is known to be done. It ends when the next call that submits
 * work starts. The GPU may have been idle before that call returned, and often between two kernels:
 * the sum is a lower bound.
 *
 * A stream is done when a synchronisation has returned: of it, of its context (cuCtxSynchronize,
 * not of others), or of an event recorded after its last work. A query of those that reports
 * completion, or a blocking copy to the host, also suffices. Work that the stream had waited for
 * (cuStreamWaitEvent) is then done as well. A blocking copy to the device proves nothing: it may
 * return when the data is staged.
 */
#include "idle_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "util/law.h"
#include "report/iter/iter.h"
#include "report/memory/memory.h"
#include "util/order.h"

#define EVENTS_MAX     (1 << 18)
#define PROCS_MAX      32768 /* each is a process: twice as many */
#define THREAD_DEFAULT (1ull << 63)

static void *idle__new(struct report *r)
{
	struct idle *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->r = r;
	d->list_max = r->opts.top < IDLE_LIST ? r->opts.top : IDLE_LIST;
	return d;
}

static void idle__free(void *a)
{
	struct idle *d = a;

	keys__free(&d->proc_keys);
	keys__free(&d->stream_keys);
	keys__free(&d->event_keys);
	memlimit_free(d->procs);
	memlimit_free(d->streams);
	memlimit_free(d->events);
	memlimit_free(d->places);
	memlimit_share_free(&d->place_rows);
	free(d->by_total);
	free(d);
}

static struct idle_proc *proc_get(struct idle *d, uint32_t pid)
{
	uint32_t i = keys_row_max(&d->proc_keys, pid, PROCS_MAX, MEMLIMIT_PROCESSES, d->procs,
				  d->proc_cap);

	if (i == KEYS_NONE)
		return NULL;
	d->procs[i].pid = pid;
	return &d->procs[i];
}

static uint64_t handle_key(uint32_t pid, uint64_t handle)
{
	return pair_key(handle, pid);
}

static bool is_default(const struct trace_event *ev, uint64_t handle)
{
	uint64_t meant = call_stream(ev, handle);

	return !meant || meant == CU_STREAM_PER_THREAD;
}

/* The stream of a call, by its key. Each context has its own default streams: one, and one per
 * thread for calls that use per-thread default streams. */
static struct idle_stream *stream_get(struct idle *d, const struct trace_event *ev, uint64_t handle)
{
	uint64_t meant = call_stream(ev, handle), key;
	uint32_t i;

	if (meant == CU_STREAM_PER_THREAD)
		key = thread_key(ev->pid, ev->tid) | THREAD_DEFAULT;
	else
		key = handle_key(ev->pid, meant);
	if (is_default(ev, handle))
		key = pair_key(key, memory_context(d->r, ev));
	i = keys_row(&d->stream_keys, key, MEMLIMIT_STREAMS, d->streams, d->stream_cap);
	if (i == KEYS_NONE)
		return NULL;
	d->streams[i].pid = ev->pid;
	d->streams[i].handle = handle;
	return &d->streams[i];
}

static struct idle_event *event_get(struct idle *d, const struct trace_event *ev)
{
	uint32_t i = keys_get(&d->event_keys, handle_key(ev->pid, ev->cu_event), EVENTS_MAX,
			      MEMLIMIT_EVENTS);
	struct idle_event *events;

	if (i == KEYS_NONE)
		return NULL;
	events = grow(d->events, &d->event_cap, i + 1, sizeof(*events), MEMLIMIT_EVENTS);
	if (events)
		d->events = events;
	return events ? &events[i] : NULL;
}

static enum idle_cause cause_of(const struct trace_event *ev)
{
	switch (ev->fn->class) {
	case CLASS_MODULE:
		return IDLE_MODULE;
	case CLASS_MEMORY:
		return IDLE_ALLOC;
	case CLASS_TRANSFER:
		return IDLE_TRANSFER;
	default:
		return IDLE_CALL;
	}
}

/* Counts the part of a call that lies in the idle period. */
static void count_cpu(struct idle_proc *p, const struct trace_event *ev)
{
	uint64_t begin = ev->start_ns > p->idle_ns ? ev->start_ns : p->idle_ns;
	struct idle_cpu *cpu = &p->cpu;
	unsigned i = 0;

	if (ev->end_ns <= begin)
		return;
	cpu->call_ns += ev->end_ns - begin;
	cpu->cause_ns[cause_of(ev)] += ev->end_ns - begin;
	while (i < cpu->cnt && cpu->fns[i] != ev->fn)
		i++;
	if (i == IDLE_FNS)
		return;
	if (i == cpu->cnt)
		cpu->fns[cpu->cnt++] = ev->fn;
	cpu->ns[i] += ev->end_ns - begin;
}

/* Longer periods come first; of two equally long ones, the one that began first. */
static bool precedes(const struct idle_period *a, const struct idle_period *b)
{
	if (a->dur_ns != b->dur_ns)
		return a->dur_ns > b->dur_ns;
	return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->pid < b->pid;
}

static void keep_longest(struct idle *d, const struct idle_period *period)
{
	unsigned i = d->list_cnt;

	if (!d->list_max || (i == d->list_max && !precedes(period, &d->list[i - 1])))
		return;
	if (i < d->list_max)
		d->list_cnt++;
	else
		i--;
	for (; i && precedes(period, &d->list[i - 1]); i--)
		d->list[i] = d->list[i - 1];
	d->list[i] = *period;
}

static void end_period(struct idle *d, struct idle_proc *p, const struct trace_event *ev)
{
	struct idle_period period = {.begin_ns = p->idle_ns, .pid = p->pid, .after = p->after};
	enum idle_cause cause = IDLE_CPU;
	struct idle_place *places;
	uint64_t most;

	/* Count each moment once, even if lines are out of order. */
	if (period.begin_ns < p->until_ns)
		period.begin_ns = p->until_ns;
	if (period.begin_ns >= ev->start_ns)
		return;
	p->until_ns = ev->start_ns;
	if (period.begin_ns < p->first_ns)
		p->first_ns = period.begin_ns;
	period.dur_ns = ev->start_ns - period.begin_ns;
	period.before = ev->name;
	period.has_stream = ev->has & HAS_STREAM;
	period.stream = ev->stream;
	/* several threads may have been in calls at the same time */
	most = period.dur_ns > p->cpu.call_ns ? period.dur_ns - p->cpu.call_ns : 0;
	for (unsigned i = IDLE_MODULE; i < IDLE_CAUSE_CNT; i++) {
		if (p->cpu.cause_ns[i] > most) {
			most = p->cpu.cause_ns[i];
			cause = i;
		}
	}
	d->cause_cnt[cause]++;
	d->res.cause_ns[cause] += period.dur_ns;
	d->res.count++;
	d->res.total_ns += period.dur_ns;
	p->total_ns += period.dur_ns;
	if (period.dur_ns > d->res.longest_ns) {
		d->res.longest_ns = period.dur_ns;
		d->res.longest_after = period.after;
		d->res.longest_before = period.before;
	}
	period.cpu = p->cpu;
	keep_longest(d, &period);
	if (!memlimit_charge(&d->place_rows, 1, MEMLIMIT_IDLE_MAX, MEMLIMIT_IDLE))
		return;
	places = grow(d->places, &d->place_cap, d->place_cnt + 1, sizeof(*places), MEMLIMIT_IDLE);
	if (!places) {
		memlimit_uncharge(&d->place_rows, NULL, 1);
		return;
	}
	d->places = places;
	places[d->place_cnt++] = (struct idle_place){period.begin_ns, period.dur_ns, p->pid};
}

static void list_busy(struct idle *d, struct idle_proc *p, struct idle_stream *s)
{
	if (s->listed)
		return;
	s->listed = true;
	s->next_busy = p->first_busy;
	p->first_busy = s - d->streams + 1;
}

static void on_submit(struct idle *d, struct idle_proc *p, const struct trace_event *ev)
{
	struct idle_stream *s = stream_get(d, ev, ev->has & HAS_STREAM ? ev->stream : 0);

	if (p->idle_ns && ev->start_ns > p->idle_ns)
		end_period(d, p, ev);
	p->idle_ns = 0;
	if (!p->first_ns || ev->start_ns < p->first_ns)
		p->first_ns = ev->start_ns;
	if (ev->end_ns > p->last_ns)
		p->last_ns = ev->end_ns;
	if (!s)
		return;
	if (s->idle_ns && ev->start_ns > s->idle_ns) {
		uint64_t ns = ev->start_ns - s->idle_ns;

		s->cnt++;
		s->total_ns += ns;
		s->max_ns = ns > s->max_ns ? ns : s->max_ns;
	}
	s->idle_ns = 0;
	s->submit_ns = ev->start_ns;
	if (!s->created)
		s->ctx = memory_context(d->r, ev);
	p->busy_cnt += !s->busy;
	s->busy = true;
	list_busy(d, p, s);
}

/* Work submitted to the stream until until_ns is done. */
static void stream_done(struct idle *d, struct idle_proc *p, struct idle_stream *s,
			uint64_t until_ns, const struct trace_event *ev)
{
	if (!s->busy || s->submit_ns > until_ns)
		return;
	s->busy = false;
	s->idle_ns = ev->end_ns;
	p->busy_cnt--;
	for (unsigned i = 0; i < IDLE_WAITS; i++) {
		struct idle_wait *w = &s->waits[i];
		uint32_t other = w->stream;

		w->stream = 0;
		if (other && other <= d->stream_keys.cnt)
			stream_done(d, p, &d->streams[other - 1], w->record_ns, ev);
	}
}

/* All streams of the call's context are done. */
static void all_done(struct idle *d, struct idle_proc *p, const struct trace_event *ev)
{
	uint64_t ctx = memory_context(d->r, ev);
	uint32_t next = p->first_busy;

	if (ctx == CONTEXT_UNKNOWN)
		return;

	p->first_busy = 0;
	while (next) {
		struct idle_stream *s = &d->streams[next - 1];

		next = s->next_busy;
		s->listed = false;
		if (s->ctx == ctx)
			stream_done(d, p, s, ev->start_ns, ev);
		/* Work that another thread submitted meanwhile is not done. */
		if (s->busy)
			list_busy(d, p, s);
	}
}

static void on_done(struct idle *d, struct idle_proc *p, const struct trace_event *ev)
{
	struct idle_stream *s = NULL;
	struct idle_event *e = NULL;
	bool was_busy = p->busy_cnt;

	if (ev->has & HAS_CU_EVENT) {
		e = event_get(d, ev);
		if (e && e->stream)
			stream_done(d, p, &d->streams[e->stream - 1], e->record_ns, ev);
	} else if ((ev->has & HAS_STREAM) || ev->fn->op != OP_SYNC) {
		s = stream_get(d, ev, ev->has & HAS_STREAM ? ev->stream : 0);
		if (s && is_default(ev, s->handle) && s->ctx == CONTEXT_UNKNOWN)
			return;
		/* a blocking copy is the work that it waits for */
		if (s)
			stream_done(d, p, s, ev->start_ns, ev);
	} else {
		all_done(d, p, ev);
	}
	if (p->busy_cnt || !was_busy)
		return;
	p->idle_ns = ev->end_ns;
	if (ev->end_ns > p->last_ns)
		p->last_ns = ev->end_ns;
	p->after = ev->name;
	memset(&p->cpu, 0, sizeof(p->cpu));
}

static void on_event_call(struct idle *d, const struct trace_event *ev)
{
	struct idle_stream *s = stream_get(d, ev, ev->stream);
	struct idle_event *e = event_get(d, ev);

	if (!s || !e)
		return;
	if (ev->fn->op == OP_RECORD) {
		*e = (struct idle_event){(uint32_t)(s - d->streams) + 1, ev->start_ns};
	} else if (e->stream) {
		s->waits[s->wait_cnt++ % IDLE_WAITS] = (struct idle_wait){e->stream, e->record_ns};
	}
}

static void on_create(struct idle *d, const struct trace_event *ev)
{
	struct idle_stream *s = stream_get(d, ev, ev->stream);

	if (!s)
		return;
	s->ctx = memory_context(d->r, ev);
	s->created = s->ctx && s->ctx != CONTEXT_UNKNOWN;
}

static bool reports_done(const struct trace_event *ev)
{
	if (ev->is_error)
		return false;
	if (ev->fn->op == OP_SYNC || (call_blocks(ev) && ev->dir == COPY_DIR_DTOH))
		return true;
	return ev->fn->op == OP_QUERY && !ev->result &&
	       (!strcmp(ev->fn->name, "cuStreamQuery") || !strcmp(ev->fn->name, "cuEventQuery"));
}

static void idle_event(void *a, const struct trace_event *ev)
{
	struct idle *d = a;
	struct idle_proc *p;

	if (!call_was_made(ev) || !call_is_top(ev))
		return;
	p = proc_get(d, ev->pid);
	if (!p)
		return;
	if (call_submits(ev))
		on_submit(d, p, ev);
	else if (p->idle_ns)
		count_cpu(p, ev);
	if (reports_done(ev))
		on_done(d, p, ev);
	else if ((ev->fn->op == OP_RECORD || ev->fn->op == OP_WAIT) && (ev->has & HAS_CU_EVENT) &&
		 !ev->is_error)
		on_event_call(d, ev);
	else if (ev->fn->class == CLASS_STREAM && ev->fn->op == OP_CREATE &&
		 (ev->has & HAS_STREAM) && !ev->is_error)
		on_create(d, ev);
}

static int by_total(const void *a, const void *b)
{
	const struct idle_stream *x = *(const struct idle_stream *const *)a;
	const struct idle_stream *y = *(const struct idle_stream *const *)b;

	return DESCENDING(x->total_ns, y->total_ns) ?: ASCENDING(x->handle, y->handle);
}

static void sort_streams(struct idle *d)
{
	d->stream_cnt = d->stream_keys.cnt < d->stream_cap ? d->stream_keys.cnt : d->stream_cap;
	d->by_total = calloc(d->stream_cnt + 1, sizeof(*d->by_total));
	for (unsigned i = 0; d->by_total && i < d->stream_cnt; i++)
		d->by_total[i] = &d->streams[i];
	if (d->by_total)
		qsort(d->by_total, d->stream_cnt, sizeof(*d->by_total), by_total);
}

static void idle_finish(void *a)
{
	struct idle *d = a;
	struct iter_result its;
	uint64_t left, causes_ns = 0;

	sort_streams(d);
	iter_result(d->r, &its);
	for (unsigned i = 0; i < IDLE_CAUSE_CNT; i++)
		causes_ns += d->res.cause_ns[i];
	law(causes_ns == d->res.total_ns);
	for (unsigned i = 0; i < d->proc_keys.cnt && i < d->proc_cap; i++)
		d->res.span_ns += d->procs[i].last_ns - d->procs[i].first_ns;
	law(d->res.total_ns <= d->res.span_ns);
	for (unsigned i = 0; i < d->stream_keys.cnt && i < d->stream_cap; i++) {
		const struct idle_stream *s = &d->streams[i];

		if (s->total_ns <= d->res.stream_ns)
			continue;
		d->res.stream = s->handle;
		d->res.stream_cnt = s->cnt;
		d->res.stream_ns = s->total_ns;
	}
	for (unsigned i = 0; i < d->place_cnt; i++) {
		if (!iter_round_at(d->r, d->places[i].pid, d->places[i].begin_ns))
			continue;
		/* The period may end after the iterations. */
		left = its.last_ns > d->places[i].begin_ns ? its.last_ns - d->places[i].begin_ns
							   : 0;
		d->res.in_iter_cnt++;
		d->res.in_iter_ns += d->places[i].dur_ns < left ? d->places[i].dur_ns : left;
	}
}

void idle_result(const struct report *r, struct idle_result *res)
{
	const struct idle *d = r->an[AN_IDLE];

	memset(res, 0, sizeof(*res));
	if (d)
		*res = d->res;
}

uint64_t idle_of_process(const struct report *r, uint32_t pid)
{
	const struct idle *d = r->an[AN_IDLE];

	for (unsigned i = 0; d && i < d->proc_keys.cnt && i < d->proc_cap; i++)
		if (d->procs[i].pid == pid)
			return d->procs[i].total_ns;
	return 0;
}

const struct analysis_ops idle_ops = {
	.name = "idle",
	.new = idle__new,
	.event = idle_event,
	.finish = idle_finish,
	.section = &idle_table,
	.print = idle_print,
	.free = idle__free,
	.of_args = true,
	.of_times = true,
};
