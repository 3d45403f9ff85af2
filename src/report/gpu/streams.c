/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Streams: the work submitted to each, how far it ran ahead of the work known to be done, and which
 * streams wait for which. Work is known to be done after a synchronisation, a successful query or a
 * copy that is not async. Work that this stream had waited for is then done, too; only direct waits
 * are followed.
 */
#include "streams.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "model/event_path.h"
#include "report/kernels/graphs.h"
#include "report/memory/memory.h"
#include "streams_priv.h"
#include "util/order.h"

#define PROCS_MAX 32768 /* each row is a process: the table holds twice as many */

static void streams__free(void *a)
{
	struct streams *s = a;

	keys__free(&s->keys);
	keys__free(&s->event_keys);
	keys__free(&s->edge_keys);
	keys__free(&s->proc_keys);
	memlimit_free(s->by_key);
	memlimit_free(s->list);
	memlimit_share_free(&s->list_rows);
	memlimit_free(s->events);
	memlimit_free(s->edges);
	memlimit_free(s->procs);
	free(s->sorted);
	free(s);
}

static uint64_t handle_of(const struct trace_event *ev)
{
	return call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);
}

static struct stream_proc *proc_get(struct streams *s, uint32_t pid)
{
	uint32_t i = keys_row_max(&s->proc_keys, pid, PROCS_MAX, MEMLIMIT_PROCESSES, s->procs,
				  s->proc_cap);

	if (i == KEYS_NONE)
		return NULL;
	return &s->procs[i];
}

/* The stream of this handle, or a new one if that stream has ended. Each context has its own
 * default streams. */
static struct stream *stream_get(struct streams *s, const struct trace_event *ev, uint64_t handle)
{
	uint32_t tid = handle == CU_STREAM_PER_THREAD ? ev->tid : 0;
	uint64_t ctx = !handle || tid ? memory_context(s->r, ev) : 0;
	uint32_t i = keys_row(&s->keys, pair_key(pair_key(pair_key(handle, ev->pid), tid), ctx),
			      MEMLIMIT_STREAMS, s->by_key, s->by_key_cap);
	struct stream_proc *p;
	struct stream *list;

	if (i == KEYS_NONE)
		return NULL;
	if (s->by_key[i] && (!s->list[s->by_key[i] - 1].destroyed ||
			     !memlimit_has(&s->list_rows, 1, MEMLIMIT_STREAMS_MAX)))
		return &s->list[s->by_key[i] - 1];
	if (!memlimit_charge(&s->list_rows, 1, MEMLIMIT_STREAMS_MAX, MEMLIMIT_STREAMS))
		return NULL;
	list = grow(s->list, &s->cap, s->cnt + 1, sizeof(*list), MEMLIMIT_STREAMS);
	if (!list) {
		memlimit_uncharge(&s->list_rows, NULL, 1);
		return NULL;
	}
	s->list = list;
	list[s->cnt] = (struct stream){.handle = handle, .pid = ev->pid, .tid = tid, .ctx = ctx};
	s->by_key[i] = ++s->cnt;
	p = proc_get(s, ev->pid);
	if (p) {
		list[s->cnt - 1].next = p->first;
		p->first = s->cnt;
	}
	return &list[s->cnt - 1];
}

static struct stream_point *event_get(struct streams *s, const struct trace_event *ev)
{
	uint32_t i = keys_row(&s->event_keys, pair_key(ev->cu_event, ev->pid), MEMLIMIT_EVENTS,
			      s->events, s->event_cap);

	if (i == KEYS_NONE)
		return NULL;
	return &s->events[i];
}

static void reach(struct stream *s, uint64_t seq)
{
	if (s->done < seq)
		s->done = seq;
}

/* Marks the stream done up to seq. Waits are not numbered, so the streams that it waited for are
 * marked only when all of its work is done. */
static void done(struct streams *s, struct stream *x, uint64_t seq)
{
	reach(x, seq);
	if (seq < x->submitted)
		return;
	for (unsigned i = 0; i < STREAM_WAITS && i < x->wait_cnt; i++)
		if (x->waits[i].stream)
			reach(&s->list[x->waits[i].stream - 1], x->waits[i].seq);
	x->wait_cnt = 0;
}

static void note_busy(struct streams *s, struct stream *x)
{
	struct stream_proc *p = x->busy ? NULL : proc_get(s, x->pid);

	if (!p)
		return;
	x->busy = true;
	x->next_busy = p->first_busy;
	p->first_busy = x - s->list + 1;
}

/* Marks all streams of the event's context done. */
static void all_done(struct streams *s, const struct trace_event *ev)
{
	struct stream_proc *p = proc_get(s, ev->pid);
	uint64_t ctx = memory_context(s->r, ev);
	uint32_t next = p ? p->first_busy : 0;

	if (!next || ctx == CONTEXT_UNKNOWN)
		return;
	p->first_busy = 0;
	while (next) {
		struct stream *x = &s->list[next - 1];

		next = x->next_busy;
		x->busy = false;
		if (x->ctx == ctx)
			x->done = x->submitted;
		else
			note_busy(s, x);
	}
}

static void note_order(struct streams *s, const struct stream *x, const struct trace_event *ev)
{
	struct stream_proc *p;
	int now = stream_is_default(x)	  ? LAST_DEFAULT
		  : stream_is_blocking(x) ? LAST_BLOCKING
					  : LAST_NONE;

	p = now == LAST_NONE ? NULL : proc_get(s, ev->pid);
	if (!p)
		return;
	if (p->last != LAST_NONE && (int)p->last != now) {
		s->switches++;
		if (!s->first_switch_ns)
			s->first_switch_ns = ev->start_ns;
	}
	p->last = now;
}

static void on_submit(struct streams *s, const struct trace_event *ev)
{
	struct stream *x = stream_get(s, ev, handle_of(ev));
	bool is_launch = ev->type != TYPE_TRANSFER;
	uint64_t depth;

	if (!x)
		return;
	x->launches += is_launch;
	x->transfers += !is_launch;
	if (!is_launch && (ev->has & HAS_SIZE))
		x->bytes += ev->size;
	depth = ++x->submitted - x->done;
	x->depth_sum += depth;
	if (depth > x->max_depth)
		x->max_depth = depth;
	s->work++;
	s->launches += is_launch;
	if (stream_is_default(x)) {
		s->default_work++;
		s->default_launches += is_launch;
	}
	if (!x->created || !x->ctx || x->ctx == CONTEXT_UNKNOWN)
		x->ctx = memory_context(s->r, ev);
	note_busy(s, x);
	note_order(s, x, ev);
	if (call_blocks(ev))
		done(s, x, x->submitted);
}

static void on_done(struct streams *s, const struct trace_event *ev)
{
	struct stream_point *e;
	struct stream *x;

	if (ev->has & HAS_STREAM) {
		x = stream_get(s, ev, handle_of(ev));
		if (!x)
			return;
		if (ev->fn->op == OP_SYNC) {
			x->syncs++;
			x->sync_ns += event_duration_ns(ev);
		}
		done(s, x, x->submitted);
	} else if (ev->has & HAS_CU_EVENT) {
		e = event_get(s, ev);
		if (e && e->stream)
			done(s, &s->list[e->stream - 1], e->seq);
	} else if (ev->fn->op == OP_SYNC) {
		all_done(s, ev);
	}
}

static void on_record(struct streams *s, const struct trace_event *ev)
{
	struct stream *x = stream_get(s, ev, handle_of(ev));
	struct stream_point *e = event_get(s, ev);

	if (!x || !e)
		return;
	x->recorded++;
	*e = (struct stream_point){(uint32_t)(x - s->list) + 1, x->submitted};
}

static void add_edge(struct streams *s, uint32_t from, uint32_t to)
{
	uint32_t i = keys_row(&s->edge_keys, (uint64_t)from << 32 | to, MEMLIMIT_EDGES, s->edges,
			      s->edge_cap);

	if (i == KEYS_NONE)
		return;
	s->edges[i].from = from;
	s->edges[i].to = to;
	s->edges[i].cnt++;
}

static void on_wait_event(struct streams *s, const struct trace_event *ev)
{
	struct stream *x = stream_get(s, ev, handle_of(ev));
	struct stream_point *e = event_get(s, ev);

	if (!x || !e)
		return;
	x->waited++;
	if (!e->stream || e->stream == (uint32_t)(x - s->list) + 1)
		return;
	x->waits[x->wait_cnt++ % STREAM_WAITS] = *e;
	add_edge(s, e->stream - 1, x - s->list);
}

static void on_create(struct streams *s, const struct trace_event *ev)
{
	struct stream *x = stream_get(s, ev, handle_of(ev));
	uint64_t val;

	if (!x)
		return;
	if (x->created || x->submitted) { /* its end was lost */
		x->destroyed = true;
		x = stream_get(s, ev, handle_of(ev));
		if (!x)
			return;
	}
	x->created = true;
	x->ctx = memory_context(s->r, ev);
	x->created_ns = ev->start_ns;
	x->has_flags =
		event_path_u64(ev, "flags", &x->flags) || event_path_u64(ev, "Flags", &x->flags);
	x->has_priority = event_arg_u64(ev, "priority", &val);
	x->priority = x->has_priority ? (int32_t)val : 0;
}

static void on_destroy(struct streams *s, const struct trace_event *ev)
{
	struct stream *x;

	x = stream_get(s, ev, handle_of(ev));
	if (x)
		x->destroyed = true;
}

static void on_event_life(struct streams *s, const struct trace_event *ev)
{
	struct stream_point *e = event_get(s, ev);

	if (e)
		e->stream = 0;
}

static void on_process(struct streams *s, const struct trace_event *ev)
{
	struct stream_proc *p;

	if (!strcmp(ev->name, "fork"))
		return;
	p = proc_get(s, ev->pid);
	while (p && p->first) {
		struct stream *x = &s->list[p->first - 1];

		x->destroyed = true;
		p->first = x->next;
	}
}

static void on_stream_call(struct streams *s, const struct trace_event *ev)
{
	switch (ev->fn->op) {
	case OP_CREATE:
		on_create(s, ev);
		break;
	case OP_DESTROY:
		on_destroy(s, ev);
		break;
	case OP_WAIT:
		if (ev->has & HAS_CU_EVENT)
			on_wait_event(s, ev);
		break;
	case OP_QUERY: /* cuStreamQuery: all is done; other queries return data */
		if (ev->fn->arg_cnt == 1)
			on_done(s, ev);
		break;
	}
}

static void on_event_call(struct streams *s, const struct trace_event *ev)
{
	switch (ev->fn->op) {
	case OP_CREATE:
	case OP_DESTROY:
		on_event_life(s, ev);
		break;
	case OP_RECORD:
		on_record(s, ev);
		break;
	case OP_QUERY: /* cuEventQuery */
		if (ev->fn->arg_cnt == 1)
			on_done(s, ev);
		break;
	}
}

static void streams_event(void *a, const struct trace_event *ev)
{
	struct streams *s = a;

	if (ev->kind == EVENT_PROCESS)
		on_process(s, ev);
	/* "not ready" is neither an error nor completion */
	if (!call_was_made(ev) || ev->result || !call_is_top(ev))
		return;
	if (ev->capture || ev->capturing)
		return;
	if (call_submits(ev))
		on_submit(s, ev);
	else if (ev->fn->op == OP_SYNC)
		on_done(s, ev);
	else if (ev->fn->class == CLASS_STREAM && (ev->has & HAS_STREAM))
		on_stream_call(s, ev);
	else if (ev->fn->class == CLASS_EVENT && (ev->has & HAS_CU_EVENT))
		on_event_call(s, ev);
}

static const struct stream *sort_list;

static int by_use(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct stream *x = &sort_list[i], *y = &sort_list[k];

	return DESCENDING(x->submitted, y->submitted) ?: ASCENDING(i, k);
}

static int by_count(const void *a, const void *b)
{
	const struct stream_edge *x = a, *y = b;

	return DESCENDING(x->cnt, y->cnt) ?: ASCENDING(x->from, y->from) ?: ASCENDING(x->to, y->to);
}

static void streams_finish(void *a)
{
	struct streams *s = a;

	s->sorted = calloc(s->cnt + 1, sizeof(*s->sorted));
	for (unsigned i = 0; s->sorted && i < s->cnt; i++)
		s->sorted[i] = i;
	sort_list = s->list;
	if (s->sorted && s->cnt)
		qsort(s->sorted, s->cnt, sizeof(*s->sorted), by_use);
	if (s->edge_keys.cnt)
		qsort(s->edges, s->edge_keys.cnt, sizeof(*s->edges), by_count);
}

void streams_result(const struct report *r, struct streams_result *res)
{
	const struct streams *s = r->an[AN_STREAMS];

	*res = (struct streams_result){0};
	if (s)
		*res = (struct streams_result){s->default_work, s->work, s->switches,
					       s->first_switch_ns};
}

const struct analysis_ops streams_ops = {
	.name = "streams",
	.size = STATE_SIZE(struct streams),
	.event = streams_event,
	.finish = streams_finish,
	.section = &streams_table,
	.print = streams_print,
	.free = streams__free,
	.of_args = true,
};
