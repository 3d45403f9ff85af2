/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inflight_priv.h"

#include <string.h>

#include "decode/cuda.h"
#include "model/call.h"
#include "model/event_path.h"
#include "model/params.h"

#define RING_FIRST 64u
/* The driver may return from a smaller copy to the device before earlier work has completed (CUDA
 * C++ Programming Guide, asynchronous concurrent execution). */
#define HTOD_WAITS_FROM 65537

static uint64_t handle_of(const struct trace_event *ev)
{
	return call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);
}

static uint64_t stream_key(uint64_t handle, uint32_t tid, uint64_t ctx)
{
	/* Each context has its own default streams. */
	return pair_key(pair_key(handle, tid), !handle || tid ? ctx : 0);
}

static uint32_t own_tid(const struct trace_event *ev, uint64_t handle)
{
	return handle == CU_STREAM_PER_THREAD ? ev->tid : 0;
}

static void note_context(struct inflight *f, uint64_t ctx)
{
	if (!ctx)
		return;
	if (!f->ctx)
		f->ctx = ctx;
	f->several_ctx |= f->ctx != ctx;
}

static uint64_t key_context(const struct inflight *f, uint64_t ctx)
{
	/* In a trace that begins late, the handle of the only context may first appear at any time.
	 */
	return f->several_ctx ? ctx : 0;
}

static uint32_t stream_get(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint64_t handle = handle_of(ev);
	uint32_t tid = own_tid(ev, handle);
	uint32_t i =
		keys_row_max(&f->stream_keys, stream_key(handle, tid, key_context(f, ctx)),
			     INFLIGHT_STREAMS_MAX, MEMLIMIT_INFLIGHT, f->streams, f->stream_cap);
	struct inflight_stream *s;

	if (i == KEYS_NONE)
		return i;
	f->stream_cnt = f->stream_keys.cnt;
	s = &f->streams[i];
	if (s->current)
		return s->current - 1;
	if (!s->last) {
		s->handle = handle;
		s->tid = tid;
		/* The driver's documentation on the default stream: both wait for each other. */
		s->is_blocking |= tid != 0;
	}
	if (ctx)
		s->ctx = ctx;
	return i;
}

uint32_t inflight__stream_of(struct inflight *f, const struct trace_event *ev)
{
	uint64_t handle = handle_of(ev);

	for (uint32_t i = 0; i < f->stream_cnt; i++) {
		const struct inflight_stream *s = &f->streams[i];

		if (s->handle == handle && s->tid == own_tid(ev, handle) && !s->current)
			return i;
	}
	return KEYS_NONE;
}

bool inflight_in_context(const struct inflight *f, const struct inflight_stream *s, uint64_t ctx)
{
	return !f->several_ctx || !ctx || !s->ctx || s->ctx == ctx;
}

bool inflight_pending(const struct inflight *f, const struct work *x)
{
	return x->number && x->number > f->streams[x->stream].done;
}

/* Marks a stream's works done up to one of them. */
static void raise_done(struct inflight *f, uint32_t i, uint64_t number)
{
	struct inflight_stream *s = &f->streams[i];

	if (number <= s->done)
		return;
	s->done = number;
	if (s->queued)
		return;
	s->queued = true;
	s->next_queued = f->queue;
	f->queue = i + 1;
}

enum which { WHICH_STREAM, WHICH_CONTEXT, WHICH_BLOCKING };

static bool matches(const struct inflight *f, uint32_t i, enum which which, uint64_t arg)
{
	const struct inflight_stream *s = &f->streams[i];

	if (which == WHICH_STREAM)
		return i == arg;
	return same_context(f, s, arg) && (which == WHICH_CONTEXT || s->is_blocking);
}

/* Marks the latest works up to `limit` of the streams done. */
static void done_until(struct inflight *f, enum which which, uint64_t arg, uint64_t limit)
{
	bool walk = false;

	for (uint32_t i = which == WHICH_STREAM ? arg : 0; i < f->stream_cnt; i++) {
		struct inflight_stream *s = &f->streams[i];

		if (s->last > s->done && matches(f, i, which, arg)) {
			if (s->last <= limit)
				raise_done(f, i, s->last);
			else
				walk = true;
			if (s->oldest.number && s->oldest.number <= limit)
				raise_done(f, i, s->oldest.number);
		}
		if (which == WHICH_STREAM)
			break;
	}
	for (uint64_t n = limit; walk && n > f->floor && n + f->ring_cap > f->number; n--) {
		const struct work *x = work_at(f, n);

		if (x && matches(f, x->stream, which, arg))
			raise_done(f, x->stream, n);
	}
}

static void settle_deps(struct inflight *f, struct inflight_stream *s)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->dep_cnt; i++) {
		struct inflight_dep d = s->deps[i];

		if (d.number && d.number <= s->done)
			raise_done(f, d.on, d.until);
		else
			s->deps[kept++] = d;
	}
	s->dep_cnt = kept;
}

/* Draws all conclusions from completed works. */
static void settle(struct inflight *f)
{
	while (f->queue) {
		uint32_t i = f->queue - 1;
		struct inflight_stream *s = &f->streams[i];

		f->queue = s->next_queued;
		s->queued = false;
		settle_deps(f, s);
		if (is_legacy(s))
			done_until(f, WHICH_BLOCKING, s->ctx, s->done);
	}
	if (f->floor + f->ring_cap < f->number)
		f->floor = f->number - f->ring_cap;
	for (const struct work *x; (x = work_at(f, f->floor + 1)) && !inflight_pending(f, x);)
		f->floor++;
}

static void add_dep(struct inflight_stream *s, uint64_t number, uint32_t on, uint64_t until)
{
	if (s->dep_cnt == INFLIGHT_DEPS)
		memmove(s->deps, s->deps + 1, --s->dep_cnt * sizeof(s->deps[0]));
	s->deps[s->dep_cnt++] = (struct inflight_dep){number, until, on};
}

/* Whether the stream has this wait already for work that it has not begun after. */
static bool has_dep(const struct inflight_stream *s, uint32_t on, uint64_t until)
{
	for (unsigned i = 0; i < s->dep_cnt; i++)
		if (s->deps[i].on == on && s->deps[i].until >= until)
			return true;
	return false;
}

/* A blocking stream waits for earlier work of the legacy default stream. */
static void wait_for_legacy(struct inflight *f, struct inflight_stream *s)
{
	if (!s->is_blocking)
		return;
	for (uint32_t i = 0; i < f->stream_cnt; i++) {
		const struct inflight_stream *l = &f->streams[i];

		if (is_legacy(l) && l->last > l->done && same_context(f, l, s->ctx) &&
		    !has_dep(s, i, l->last))
			add_dep(s, 0, i, l->last);
	}
}

static uint64_t *id_slot(const struct inflight *f, uint64_t id)
{
	return &f->by_id[id * 0x9e3779b97f4a7c15ull >> 32 & (f->ring_cap - 1)];
}

/* Doubles the ring, up to INFLIGHT_MAX, before it would lose a pending work. Without memory the
 * ring keeps its size. */
static void make_room(struct inflight *f)
{
	uint32_t cap = f->ring_cap ? 2 * f->ring_cap : RING_FIRST, old_cap = f->ring_cap;
	struct work *ring, *old = f->ring;
	uint64_t *by_id;

	if (old &&
	    (old_cap == INFLIGHT_MAX || !inflight_pending(f, &old[(f->number + 1) % old_cap])))
		return;
	ring = memlimit_new(MEMLIMIT_INFLIGHT, cap * sizeof(*ring));
	by_id = memlimit_new(MEMLIMIT_INFLIGHT, cap * sizeof(*by_id));
	if (!ring || !by_id) {
		memlimit_free(ring);
		memlimit_free(by_id);
		return;
	}
	memlimit_free(f->by_id);
	f->ring = ring;
	f->by_id = by_id;
	f->ring_cap = cap;
	for (uint32_t i = 0; i < old_cap; i++) {
		if (!old[i].number)
			continue;
		ring[old[i].number % cap] = old[i];
		*id_slot(f, old[i].id) = old[i].number;
	}
	memlimit_free(old);
}

static void evict(struct inflight *f, const struct work *x)
{
	struct inflight_stream *s;

	if (!inflight_pending(f, x)) {
		inflight_note(f, x);
		return;
	}
	s = &f->streams[x->stream];
	if (s->oldest.number <= s->done) {
		inflight_note(f, &s->oldest);
		s->oldest = *x;
	} else {
		s->evicted = x->number;
	}
}

static uint64_t host_function(const struct trace_event *ev)
{
	uint64_t fn = 0;

	if (ev->fn->op == OP_LAUNCH_HOST || ev->fn->op == OP_ADD)
		event_arg_u64(ev, ev->fn->op == OP_ADD ? "callback" : "fn", &fn);
	return fn;
}

struct add_address {
	struct work *x;
	const struct launch_params *p;
};

static void add_address(void *ctx, unsigned param, unsigned at, uint64_t value)
{
	const struct add_address *a = ctx;
	bool may_be_null = !value && a->p->of[param].size == sizeof(value);

	if (!may_be_null && value < 0x10000)
		return;
	if (a->x->addr_cnt < WORK_ADDRS_MAX)
		a->x->addrs[a->x->addr_cnt++] =
			(struct work_addr){.value = value, .param = param, .at = at};
	else
		a->x->addrs_known = false;
}

static void add_memory(struct work_addr *a, const struct param_memory *m)
{
	if (m->freed)
		a->freed_id = m->freed_id;
	if (a->value - m->ptr >= m->size)
		return;
	a->ptr = m->ptr;
	a->size = m->size;
}

static void add_addresses(struct work *x, const struct launch_params *p)
{
	launch_params_words(p, add_address, &(struct add_address){x, p});
	for (unsigned i = 0; i < p->memory_cnt; i++)
		for (unsigned k = 0; k < x->addr_cnt; k++)
			if (x->addrs[k].param == p->memory[i].param &&
			    x->addrs[k].at == p->memory[i].at)
				add_memory(&x->addrs[k], &p->memory[i]);
}

static void submit(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint32_t i = stream_get(f, ev, ctx);
	struct inflight_stream *s;
	struct work *x;

	if (i == KEYS_NONE) {
		f->untracked++;
		return;
	}
	make_room(f);
	if (!f->ring_cap) {
		f->untracked++;
		return;
	}
	s = &f->streams[i];
	wait_for_legacy(f, s);
	x = &f->ring[++f->number % f->ring_cap];
	evict(f, x);
	*x = (struct work){
		.number = f->number,
		.id = ev->id,
		.start_ns = ev->start_ns,
		.end_ns = ev->end_ns,
		.fn = ev->fn,
		.kernel = ev->launch.kernel,
		.operator= ev->operator,
		.range = ev->range_text,
		.stack = ev->stack,
		.handle = s->handle,
		.size = ev->has & HAS_SIZE ? ev->size : 0,
		.ptr = ev->has & HAS_PTR ? ev->ptr : 0,
		.host_fn = host_function(ev),
		.tid = ev->tid,
		.stream = i,
		.has_config = ev->launch.has_config,
	};
	x->addrs_known = ev->launch.params && !ev->launch.params_cut;
	if (ev->launch.params)
		add_addresses(x, ev->launch.params);
	memcpy(x->grid, ev->launch.grid, sizeof(x->grid));
	memcpy(x->block, ev->launch.block, sizeof(x->block));
	for (unsigned d = 0; d < s->dep_cnt; d++)
		if (!s->deps[d].number)
			s->deps[d].number = x->number;
	s->last = x->number;
	*id_slot(f, x->id) = x->number;
}

/* The latest work that was submitted before the call began. */
static uint64_t before(const struct inflight *f, const struct trace_event *ev)
{
	const struct work *x;
	uint64_t n = f->number;

	while (n > f->floor && (x = work_at(f, n)) && x->end_ns > ev->start_ns && x->tid != ev->tid)
		n--;
	return n;
}

static void on_waited(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	const struct inflight_event *e;
	uint32_t i;

	if (ev->has & HAS_STREAM) {
		i = stream_get(f, ev, ctx);
		if (i == KEYS_NONE)
			return;
		if (is_legacy(&f->streams[i]))
			done_until(f, WHICH_BLOCKING, f->streams[i].ctx, before(f, ev));
		done_until(f, WHICH_STREAM, i, before(f, ev));
	} else if (ev->has & HAS_CU_EVENT) {
		e = inflight__recorded(f, ev->cu_event);
		/* Recorded again meanwhile: the wait may be for the earlier record. */
		if (e && e->end_ns <= ev->start_ns)
			raise_done(f, e->stream - 1, e->number);
	} else if (ev->fn->op == OP_SYNC) {
		done_until(f, WHICH_CONTEXT, ctx, before(f, ev));
		f->from_start |= !f->several_ctx;
	}
	settle(f);
}

const struct inflight_event *inflight__recorded(struct inflight *f, uint64_t cu_event)
{
	uint32_t i = keys__find(&f->event_keys, cu_event);

	return i == KEYS_NONE || !f->events[i].stream ? NULL : &f->events[i];
}

static void on_record(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint32_t s = stream_get(f, ev, ctx), i;

	if (!has_room(&f->event_keys, ev->cu_event, INFLIGHT_EVENTS_MAX))
		return;
	i = keys_row_max(&f->event_keys, ev->cu_event, INFLIGHT_EVENTS_MAX, MEMLIMIT_INFLIGHT,
			 f->events, f->event_cap);
	if (i == KEYS_NONE)
		return;
	f->events[i] = (struct inflight_event){0};
	if (s == KEYS_NONE)
		return;
	f->events[i] = (struct inflight_event){s + 1, f->streams[s].last, ev->end_ns};
}

static void on_wait_event(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint32_t i = stream_get(f, ev, ctx);
	const struct inflight_event *e = inflight__recorded(f, ev->cu_event);

	if (i == KEYS_NONE || !e || e->stream == i + 1 ||
	    e->number <= f->streams[e->stream - 1].done)
		return;
	add_dep(&f->streams[i], 0, e->stream - 1, e->number);
}

/* A handle that is used again is another stream: the work of the older one may still run. */
static void on_create(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint32_t i = stream_get(f, ev, ctx), k;
	uint64_t flags, key;
	bool is_blocking;

	if (i == KEYS_NONE || !handle_of(ev))
		return;
	is_blocking =
		(event_path_u64(ev, "flags", &flags) || event_path_u64(ev, "Flags", &flags)) &&
		!(flags & 1);
	if (f->streams[i].last > f->streams[i].done) {
		uint32_t base = keys__find(&f->stream_keys,
					   stream_key(handle_of(ev), 0, key_context(f, ctx)));

		key = pair_key(handle_of(ev), pair_key(ev->id, 1));
		if (!has_room(&f->stream_keys, key, INFLIGHT_STREAMS_MAX)) {
			f->untracked++;
			return;
		}
		k = keys_row_max(&f->stream_keys, key, INFLIGHT_STREAMS_MAX, MEMLIMIT_INFLIGHT,
				 f->streams, f->stream_cap);
		if (k == KEYS_NONE || base == KEYS_NONE)
			return;
		f->stream_cnt = f->stream_keys.cnt;
		f->streams[k] = (struct inflight_stream){.handle = handle_of(ev), .ctx = ctx};
		f->streams[base].current = k + 1;
		i = k;
	}
	f->streams[i].is_blocking = is_blocking;
}

static void on_stream_call(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	if (ev->fn->op == OP_CREATE)
		on_create(f, ev, ctx);
	else if (ev->fn->op == OP_WAIT && (ev->has & HAS_CU_EVENT))
		on_wait_event(f, ev, ctx);
	else if (ev->fn->op == OP_QUERY && ev->fn->arg_cnt == 1) /* cuStreamQuery */
		on_waited(f, ev, ctx);
	else if (ev->fn->op == OP_STREAM_MEMOP || ev->fn->op == OP_LAUNCH_HOST ||
		 !strcmp(ev->fn->name, "cuStreamAddCallback"))
		submit(f, ev, ctx);
}

static void on_event_call(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	uint32_t i;

	if (ev->fn->op == OP_RECORD) {
		on_record(f, ev, ctx);
	} else if (ev->fn->op == OP_QUERY && ev->fn->arg_cnt == 1) { /* cuEventQuery */
		on_waited(f, ev, ctx);
	} else if (ev->fn->op == OP_CREATE || ev->fn->op == OP_DESTROY) {
		i = keys__find(&f->event_keys, ev->cu_event);
		if (i != KEYS_NONE)
			f->events[i] = (struct inflight_event){0};
	}
}

/* A copy that returns when it is done: so is all that its stream had before. */
static bool waits_for_stream(const struct trace_event *ev)
{
	if (!call_crosses(ev) || ev->fn->is_async)
		return false;
	return ev->dir == COPY_DIR_DTOH || ((ev->has & HAS_SIZE) && ev->size >= HTOD_WAITS_FROM);
}

void inflight__event(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	note_context(f, ctx);
	if (call_submits(ev)) {
		submit(f, ev, ctx);
		if (waits_for_stream(ev) && f->number) {
			raise_done(f, f->ring[f->number % f->ring_cap].stream, f->number);
			settle(f);
		}
	} else if (ev->fn->op == OP_SYNC) {
		on_waited(f, ev, ctx);
	} else if (ev->fn->op == OP_LOOKUP) {
		inflight__found(f, ev);
	} else if ((ev->has & HAS_STREAM) && ev->fn->class != CLASS_EVENT) {
		on_stream_call(f, ev, ctx);
	} else if (ev->fn->class == CLASS_EVENT && (ev->has & HAS_CU_EVENT)) {
		on_event_call(f, ev, ctx);
	}
}

bool inflight__ran(struct inflight *f, uint64_t id)
{
	const struct work *x = f->ring_cap ? work_at(f, *id_slot(f, id)) : NULL;

	if (!x || x->id != id || !inflight_pending(f, x))
		return false;
	raise_done(f, x->stream, x->number);
	settle(f);
	return true;
}

void inflight__context_gone(struct inflight *f, const struct trace_event *ev, uint64_t ctx)
{
	done_until(f, WHICH_CONTEXT, ctx, before(f, ev));
	settle(f);
}

void inflight__free(struct inflight *f)
{
	keys__free(&f->stream_keys);
	keys__free(&f->event_keys);
	keys__free(&f->completed);
	keys__free(&f->found);
	memlimit_free(f->streams);
	memlimit_free(f->events);
	memlimit_free(f->ring);
	memlimit_free(f->by_id);
	*f = (struct inflight){0};
}
