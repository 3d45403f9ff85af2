/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcuda: the simulated timeline. A stream has the time until which it is busy;
 * added work begins then, or now if that is past. Calls that wait really wait. Streams, events,
 * launches, host functions.
 */
#include "libcuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_NON_BLOCKING 1
#define EVENT_BLOCKING_SYNC 1
#define EVENT_NO_TIMING	    2

struct stream *streams;
static struct stream *legacy;
static __thread struct stream *thread_default;
static uint64_t stream_number = 16;

struct trace_event {
	struct obj obj;
	uint64_t when_ns;
	unsigned flags;
	bool recorded;
	struct stream *stream; /* whose host functions it waits for */
	uint64_t cb_queued;
	struct graph *capture;
};

/* Host functions run in order, in a thread of the driver. */
struct host_func {
	struct host_func *next;
	struct stream *stream;
	uint64_t fn, data, when_ns;
	bool callback; /* cuStreamAddCallback: (stream, status, data) */
	uint64_t handle;
};
static struct host_func *queue_head, **queue_tail = &queue_head;
static pthread_cond_t queue_cond = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static bool worker_runs;

uint64_t kernel_ns(void)
{
	static uint64_t ns;
	const char *s;

	if (!ns) {
		s = getenv("FAKE_KERNEL_US");
		ns = s ? strtoull(s, NULL, 0) * 1000 + 1 : 5000;
	}
	return ns;
}

static struct stream *stream_new(unsigned flags, int priority)
{
	struct stream *s = obj_new(OBJ_STREAM, sizeof(*s));

	s->flags = flags;
	s->priority = priority;
	s->number = stream_number++;
	return s;
}

struct stream *stream_of(const struct call *c, uint64_t handle)
{
	if (handle == 2 || (handle == 0 && c->per_thread)) {
		if (!thread_default)
			thread_default = stream_new(0, 0);
		return thread_default;
	}
	if (handle < 2) {
		if (!legacy)
			legacy = stream_new(0, 0);
		return legacy;
	}
	return obj_get(handle, OBJ_STREAM);
}

bool stream_is_legacy(const struct stream *s)
{
	return s == legacy;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The legacy default stream and blocking streams wait for each other. */
static uint64_t stream_start(const struct stream *s)
{
	uint64_t t = later(now_ns(), s->busy_until_ns);

	if (s == legacy) {
		for (const struct stream *o = streams; o; o = o->next)
			if (!(o->flags & STREAM_NON_BLOCKING))
				t = later(t, o->busy_until_ns);
	} else if (legacy && !(s->flags & STREAM_NON_BLOCKING)) {
		t = later(t, legacy->busy_until_ns);
	}
	return t;
}

uint64_t stream_add(struct stream *s, uint64_t duration_ns)
{
	uint64_t t = stream_start(s);

	if (duration_ns)
		s->busy_until_ns = t + duration_ns;
	return t;
}

static void wait_host_funcs(struct stream *s, uint64_t upto)
{
	while (s->cb_done < upto)
		wait_until_ns(now_ns() + 20000);
}

void stream_wait(struct stream *s)
{
	uint64_t t = s == legacy ? stream_start(s) : s->busy_until_ns, upto = s->cb_queued;

	wait_until_ns(t);
	wait_host_funcs(s, upto);
}

static bool stream_busy(const struct stream *s)
{
	return s->busy_until_ns > now_ns() || s->cb_done < s->cb_queued;
}

static void *worker(void *arg)
{
	(void)arg;
	for (;;) {
		struct host_func *h;

		pthread_mutex_lock(&queue_lock);
		while (!queue_head)
			pthread_cond_wait(&queue_cond, &queue_lock);
		h = queue_head;
		queue_head = h->next;
		if (!queue_head)
			queue_tail = &queue_head;
		pthread_mutex_unlock(&queue_lock);

		fake_lock();
		wait_until_ns(h->when_ns);
		fake_unlock();
		if (h->callback)
			((void (*)(uint64_t, int, uint64_t))(uintptr_t)h->fn)(h->handle, 0,
									      h->data);
		else
			((void (*)(uint64_t))(uintptr_t)h->fn)(h->data);
		fake_lock();
		h->stream->cb_done++;
		fake_unlock();
		free(h);
	}
	return NULL;
}

static void host_func_put(struct host_func *h)
{
	pthread_t t;

	h->when_ns = stream_add(h->stream, 0);
	h->stream->cb_queued++;
	pthread_mutex_lock(&queue_lock);
	if (!worker_runs && !pthread_create(&t, NULL, worker, NULL)) {
		pthread_detach(t);
		worker_runs = true;
	}
	*queue_tail = h;
	queue_tail = &h->next;
	pthread_cond_signal(&queue_cond);
	pthread_mutex_unlock(&queue_lock);
}

void host_func_queue(struct stream *s, uint64_t fn, uint64_t data)
{
	struct host_func *h = calloc(1, sizeof(*h));

	h->stream = s;
	h->fn = fn;
	h->data = data;
	host_func_put(h);
}

/* Streams */

static int stream_create(uint64_t out, unsigned flags, int priority)
{
	struct stream *s;

	if (flags & ~1u)
		return E_VALUE;
	s = stream_new(flags, priority);
	if (put64(out, (uintptr_t)s)) {
		obj_free(s);
		return E_VALUE;
	}
	s->next = streams;
	streams = s;
	return OK;
}

static int run_create(struct call *c)
{
	return stream_create(c->w[0], c->w[1], 0);
}

static int run_create_priority(struct call *c)
{
	return stream_create(c->w[0], c->w[1], c->w[2]);
}

static int run_destroy(struct call *c)
{
	struct stream *s = obj_get(c->w[0], OBJ_STREAM), **p;

	if (!s)
		return E_HANDLE;
	for (p = &streams; *p && *p != s; p = &(*p)->next)
		;
	if (!*p)
		return E_VALUE;
	*p = s->next;
	/* Host functions may still use it: the memory is not freed. */
	s->obj.kind = 0;
	return OK;
}

static int run_sync(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	if (!s)
		return E_HANDLE;
	if (s->capture) {
		s->capture_invalid = true;
		return E_CAPTURE;
	}
	stream_wait(s);
	return OK;
}

static int run_query(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	if (!s)
		return E_HANDLE;
	if (s->capture)
		return E_CAPTURE;
	return stream_busy(s) ? E_NOT_READY : OK;
}

/* Streams may be created and destroyed while this waits without the lock: restart each time. */
static int run_ctx_sync(struct call *c)
{
	bool again = true, capturing = false;

	(void)c;
	/* Like in the driver, this invalidates every capture in the context. */
	for (struct stream *s = streams; s; s = s->next)
		if (s->capture)
			capturing = s->capture_invalid = true;
	if (capturing)
		return E_CAPTURE;
	while (again) {
		again = false;
		for (struct stream *s = streams; s && !again; s = s->next)
			if (stream_busy(s)) {
				stream_wait(s);
				again = true;
			}
	}
	if (legacy)
		stream_wait(legacy);
	if (thread_default)
		stream_wait(thread_default);
	return OK;
}

static int run_flags(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	return s ? put32(c->w[1], s->flags) : E_HANDLE;
}

static int run_priority(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	return s ? put32(c->w[1], s->priority) : E_HANDLE;
}

static int run_id(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	return s ? put64(c->w[1], s->number) : E_HANDLE;
}

static int run_ctx(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	return s ? put64(c->w[1], (uintptr_t)ctx_current()) : E_HANDLE;
}

static int run_wait_event(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);
	struct trace_event *e = obj_get(c->w[1], OBJ_EVENT);

	if (!s || !e)
		return E_HANDLE;
	if (e->capture) {
		/* A wait for an event of a capture adds the stream to it. */
		if (!s->capture)
			s->capture = e->capture;
		return OK;
	}
	if (s->capture)
		return e->recorded ? E_CAPTURE : OK;
	if (e->recorded)
		s->busy_until_ns = later(s->busy_until_ns, e->when_ns);
	return OK;
}

static int run_add_callback(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);
	struct host_func *h;

	if (!s)
		return E_HANDLE;
	if (!c->w[1])
		return E_VALUE;
	if (s->capture)
		return E_CAPTURE;
	h = calloc(1, sizeof(*h));
	h->stream = s;
	h->fn = c->w[1];
	h->data = c->w[2];
	h->handle = c->w[0];
	h->callback = true;
	host_func_put(h);
	return OK;
}

/* Events */

static int run_event_create(struct call *c)
{
	struct trace_event *e;

	if ((uint32_t)c->w[1] & ~7u)
		return E_VALUE;
	e = obj_new(OBJ_EVENT, sizeof(*e));
	e->flags = c->w[1];
	if (put64(c->w[0], (uintptr_t)e)) {
		obj_free(e);
		return E_VALUE;
	}
	return OK;
}

static int run_event_destroy(struct call *c)
{
	struct trace_event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	obj_free(e);
	return OK;
}

static int run_event_record(struct call *c)
{
	struct trace_event *e = obj_get(c->w[0], OBJ_EVENT);
	struct stream *s = stream_of(c, c->w[1]);

	if (!e || !s)
		return E_HANDLE;
	e->capture = s->capture;
	if (s->capture)
		return OK;
	e->when_ns = stream_add(s, 0);
	e->recorded = true;
	e->stream = s;
	e->cb_queued = s->cb_queued;
	return OK;
}

static bool event_pending(const struct trace_event *e)
{
	return e->recorded && (e->when_ns > now_ns() || e->stream->cb_done < e->cb_queued);
}

static int run_event_query(struct call *c)
{
	struct trace_event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	if (e->capture)
		return E_CAPTURE;
	return event_pending(e) ? E_NOT_READY : OK;
}

static int run_event_sync(struct call *c)
{
	struct trace_event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	if (e->capture)
		return E_CAPTURE;
	if (e->recorded) {
		struct stream *s = e->stream;
		uint64_t upto = e->cb_queued;

		wait_until_ns(e->when_ns);
		wait_host_funcs(s, upto);
	} else if (getenv("FAKE_EVENT_HANG")) {
		wait_until_ns(now_ns() + ENDLESS_NS);
	}
	return OK;
}

static int run_elapsed(struct call *c)
{
	struct trace_event *a = obj_get(c->w[1], OBJ_EVENT), *b = obj_get(c->w[2], OBJ_EVENT);
	float ms;

	if (!a || !b || !a->recorded || !b->recorded || (a->flags | b->flags) & EVENT_NO_TIMING)
		return E_HANDLE;
	if (event_pending(a) || event_pending(b))
		return E_NOT_READY;
	ms = (float)((double)(int64_t)(b->when_ns - a->when_ns) / 1e6);
	return put(c->w[0], &ms, sizeof(ms));
}

void stream_after_fork(void)
{
	pthread_mutex_init(&queue_lock, NULL);
	pthread_cond_init(&queue_cond, NULL);
	queue_head = NULL;
	queue_tail = &queue_head;
	worker_runs = false;
	streams = legacy = thread_default = NULL;
}

const struct impl impl_stream[] = {
	{"cuStreamCreate", run_create, IMPL_CONTEXT},
	{"cuStreamCreateWithPriority", run_create_priority, IMPL_CONTEXT},
	{"cuStreamDestroy", run_destroy, IMPL_CONTEXT},
	{"cuStreamDestroy_v2", run_destroy, IMPL_CONTEXT},
	{"cuStreamSynchronize", run_sync, IMPL_CONTEXT},
	{"cuStreamQuery", run_query, IMPL_CONTEXT},
	{"cuStreamGetFlags", run_flags, IMPL_CONTEXT},
	{"cuStreamGetPriority", run_priority, IMPL_CONTEXT},
	{"cuStreamGetId", run_id, IMPL_CONTEXT},
	{"cuStreamGetCtx", run_ctx, IMPL_CONTEXT},
	{"cuStreamWaitEvent", run_wait_event, IMPL_CONTEXT},
	{"cuStreamAddCallback", run_add_callback, IMPL_CONTEXT},
	{"cuCtxSynchronize", run_ctx_sync, IMPL_CONTEXT},
	{"cuCtxSynchronize_v2", run_ctx_sync, 0},
	{"cuEventCreate", run_event_create, IMPL_CONTEXT},
	{"cuEventDestroy", run_event_destroy, 0},
	{"cuEventDestroy_v2", run_event_destroy, 0},
	{"cuEventRecord", run_event_record, IMPL_CONTEXT},
	{"cuEventRecordWithFlags", run_event_record, IMPL_CONTEXT},
	{"cuEventQuery", run_event_query, 0},
	{"cuEventSynchronize", run_event_sync, 0},
	{"cuEventElapsedTime", run_elapsed, 0},
	{"cuEventElapsedTime_v2", run_elapsed, 0},
	{NULL, NULL, 0},
};
