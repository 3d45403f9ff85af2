/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stand-in libcuda: the simulated timeline. A stream knows until when it is busy; work that is
 * added begins then, or now if that is past. Calls that wait do wait. Streams, events, launches,
 * host functions.
 */
#include "libcuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_NON_BLOCKING 1
#define EVENT_BLOCKING_SYNC 1
#define EVENT_NO_TIMING	    2

static struct stream *streams; /* that programs created */
static struct stream *legacy;
static __thread struct stream *thread_default;
static uint64_t stream_number = 16;

struct event {
	struct obj obj;
	uint64_t when_ns;
	unsigned flags;
	bool recorded;
	struct stream *stream; /* whose host functions it waits for */
	uint64_t cb_queued;
	struct graph *capture;
};

/* Host functions run in a thread of the driver's, in order. */
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
	/* Host functions may still run in it: the memory stays. */
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

/* Streams may be created and destroyed while this waits without the lock: begin anew each time. */
static int run_ctx_sync(struct call *c)
{
	bool again = true;

	(void)c;
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
	struct event *e = obj_get(c->w[1], OBJ_EVENT);

	if (!s || !e)
		return E_HANDLE;
	if (e->capture) {
		/* A wait for an event of a capture takes the stream into it. */
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
	struct event *e;

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
	struct event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	obj_free(e);
	return OK;
}

static int run_event_record(struct call *c)
{
	struct event *e = obj_get(c->w[0], OBJ_EVENT);
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

static bool event_pending(const struct event *e)
{
	return e->recorded && (e->when_ns > now_ns() || e->stream->cb_done < e->cb_queued);
}

static int run_event_query(struct call *c)
{
	struct event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	if (e->capture)
		return E_CAPTURE;
	return event_pending(e) ? E_NOT_READY : OK;
}

static int run_event_sync(struct call *c)
{
	struct event *e = obj_get(c->w[0], OBJ_EVENT);

	if (!e)
		return E_HANDLE;
	if (e->capture)
		return E_CAPTURE;
	if (e->recorded) {
		struct stream *s = e->stream;
		uint64_t upto = e->cb_queued;

		wait_until_ns(e->when_ns);
		wait_host_funcs(s, upto);
	}
	return OK;
}

static int run_elapsed(struct call *c)
{
	struct event *a = obj_get(c->w[1], OBJ_EVENT), *b = obj_get(c->w[2], OBJ_EVENT);
	float ms;

	if (!a || !b || !a->recorded || !b->recorded || (a->flags | b->flags) & EVENT_NO_TIMING)
		return E_HANDLE;
	if (event_pending(a) || event_pending(b))
		return E_NOT_READY;
	ms = (float)((double)(int64_t)(b->when_ns - a->when_ns) / 1e6);
	return put(c->w[0], &ms, sizeof(ms));
}

/* Launches */

static int launch(struct call *c, uint64_t func, const uint32_t *dim, uint64_t stream)
{
	struct stream *s = stream_of(c, stream);
	struct work w = {.kind = WORK_KERNEL, .func = func};

	if (!func_get(func) || !s)
		return E_HANDLE;
	for (int i = 0; i < 6; i++)
		if (!dim[i])
			return E_VALUE;
	if ((uint64_t)dim[3] * dim[4] * dim[5] > 1024)
		return E_VALUE;
	return work_submit(s, &w);
}

static int run_launch(struct call *c)
{
	uint32_t dim[6];

	for (int i = 0; i < 6; i++)
		dim[i] = c->w[1 + i];
	return launch(c, c->w[0], dim, c->w[8]);
}

/* CUlaunchConfig */
struct config {
	uint32_t dim[6], shared_mem_sz;
	uint64_t stream, attrs;
	uint32_t attr_cnt;
};

static int run_launch_ex(struct call *c)
{
	const struct config *cfg = (const void *)(uintptr_t)c->w[0];

	if (!readable(c->w[0], sizeof(*cfg)))
		return E_VALUE;
	return launch(c, c->w[1], cfg->dim, cfg->stream);
}

static int run_launch_host(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);
	struct work w = {.kind = WORK_HOST, .func = c->w[1], .src = c->w[2]};

	if (!s)
		return E_HANDLE;
	if (!c->w[1])
		return E_VALUE;
	return work_submit(s, &w);
}

int work_run(struct stream *s, const struct work *w)
{
	switch (w->kind) {
	case WORK_KERNEL:
		stream_add(s, kernel_ns());
		break;
	case WORK_COPY:
		memmove((void *)(uintptr_t)w->dst, (void *)(uintptr_t)w->src, w->size);
		stream_add(s, copy_ns(w->size));
		break;
	case WORK_COPY2D:
		copy2d_run(w->params);
		stream_add(s, copy_ns(w->size));
		break;
	case WORK_MEMSET:
		for (unsigned y = 0; y < w->height; y++)
			for (uint64_t x = 0; x < w->size; x += w->width)
				memcpy((char *)(uintptr_t)w->dst + y * w->pitch + x, &w->value,
				       w->width);
		stream_add(s, copy_ns(w->size * w->height));
		break;
	case WORK_HOST:
		host_func_queue(s, w->func, w->src);
		break;
	case WORK_EMPTY:
		break;
	}
	return OK;
}

int work_submit(struct stream *s, const struct work *w)
{
	if (s->capture_invalid)
		return E_CAPTURE_INVALID;
	if (s->capture) {
		capture_add(s->capture, w);
		return OK;
	}
	return work_run(s, w);
}

/* Capture: begins and ends here, graphs are in libcuda_graph.c. */

static int run_begin_capture(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	if (!s)
		return E_HANDLE;
	/* The legacy stream cannot be captured. */
	if (s == legacy)
		return E_CAPTURE;
	if (s->capture)
		return E_VALUE;
	s->capture = graph_new();
	s->capture_origin = true;
	s->capture_invalid = false;
	return OK;
}

static int run_end_capture(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);
	struct graph *g;
	bool invalid;

	if (!s)
		return E_HANDLE;
	if (!s->capture)
		return E_VALUE;
	if (!s->capture_origin)
		return E_CAPTURE_UNMATCHED;
	g = s->capture;
	invalid = s->capture_invalid;
	for (struct stream *o = streams; o; o = o->next)
		if (o->capture == g) {
			invalid |= o->capture_invalid;
			o->capture = NULL;
			o->capture_invalid = false;
		}
	s->capture = NULL;
	s->capture_origin = s->capture_invalid = false;
	if (invalid) {
		graph_free(g);
		g = NULL;
	}
	if (put64(c->w[1], (uintptr_t)g))
		return E_VALUE;
	return invalid ? E_CAPTURE_INVALID : OK;
}

static unsigned capture_status(const struct stream *s)
{
	return s->capture_invalid ? 2 : s->capture ? 1 : 0;
}

static int run_is_capturing(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	return s ? put32(c->w[1], capture_status(s)) : E_HANDLE;
}

/* (stream, status, id, graph, dependencies, [edges,] number) */
static int run_capture_info(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	if (!s)
		return E_HANDLE;
	if (put32(c->w[1], capture_status(s)) || put64_opt(c->w[2], s->capture ? s->number : 0))
		return E_VALUE;
	if (c->fn->arg_cnt > 3 && put64_opt(c->w[3], (uintptr_t)s->capture))
		return E_VALUE;
	for (unsigned i = 4; i < c->fn->arg_cnt; i++)
		if (put64_opt(c->w[i], 0))
			return E_VALUE;
	return OK;
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
	{"cuLaunchKernel", run_launch, IMPL_CONTEXT},
	{"cuLaunchCooperativeKernel", run_launch, IMPL_CONTEXT},
	{"cuLaunchKernelEx", run_launch_ex, IMPL_CONTEXT},
	{"cuLaunchHostFunc", run_launch_host, IMPL_CONTEXT},
	{"cuStreamBeginCapture", run_begin_capture, IMPL_CONTEXT},
	{"cuStreamBeginCapture_v2", run_begin_capture, IMPL_CONTEXT},
	{"cuStreamEndCapture", run_end_capture, IMPL_CONTEXT},
	{"cuStreamIsCapturing", run_is_capturing, IMPL_CONTEXT},
	{"cuStreamGetCaptureInfo", run_capture_info, IMPL_CONTEXT},
	{"cuStreamGetCaptureInfo_v2", run_capture_info, IMPL_CONTEXT},
	{"cuStreamGetCaptureInfo_v3", run_capture_info, IMPL_CONTEXT},
	{NULL, NULL, 0},
};
