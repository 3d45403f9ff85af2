/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock libcuda: launches, host functions, and stream capture, which records them as nodes. */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>

static int launch(struct call *c, uint64_t func, const uint32_t *dim, uint64_t stream,
		  uint64_t params, uint64_t extra)
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
	func_params_copy(func_get(func), params, extra);
	return work_submit(s, &w);
}

static int run_launch(struct call *c)
{
	uint32_t dim[6];

	for (int i = 0; i < 6; i++)
		dim[i] = c->w[1 + i];
	return launch(c, c->w[0], dim, c->w[8], c->w[9], c->w[10]);
}

static int run_launch_coop(struct call *c)
{
	c->w[10] = 0;
	return run_launch(c);
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
	return launch(c, c->w[1], cfg->dim, cfg->stream, c->w[2], c->w[3]);
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

/* The value after "KERNEL:" in the variable's list; "" without one. NULL: it does not name it. */
static const char *planned(const char *variable, uint64_t func)
{
	const char *plan = getenv(variable);
	const struct func *f = plan ? func_get(func) : NULL;
	size_t len = f ? strlen(f->name) : 0;

	for (; f && *plan; plan += strcspn(plan, ","), plan += *plan == ',')
		if (!strncmp(plan, f->name, len) && strchr(":,", plan[len]))
			return plan[len] == ':' ? plan + len + 1 : "";
	return NULL;
}

static void run_on_timeline(struct stream *s, const struct work *w, uint64_t duration_ns)
{
	stream_add(s, duration_ns);
	tools_work(s, w, duration_ns);
}

static void run_kernel(struct stream *s, const struct work *w)
{
	const char *code = planned("FAKE_FAULT", w->func), *ms = planned("FAKE_HANG", w->func);
	const char *us = planned("FAKE_KERNEL_US", w->func);

	run_on_timeline(s, w,
			ms && *ms ? strtoull(ms, NULL, 0) * 1000000
			: ms	  ? ENDLESS_NS
			: us	  ? strtoull(us, NULL, 0) * 1000
				  : kernel_ns());
	if (code)
		fault_plan(strtol(code, NULL, 0), s->busy_until_ns);
}

int work_run(struct stream *s, const struct work *w)
{
	switch (w->kind) {
	case WORK_KERNEL:
		run_kernel(s, w);
		break;
	case WORK_COPY:
		memmove((void *)(uintptr_t)w->dst, (void *)(uintptr_t)w->src, w->size);
		run_on_timeline(s, w, copy_ns(w));
		break;
	case WORK_COPY2D:
		copy2d_run(w->params);
		run_on_timeline(s, w, copy_ns(w));
		break;
	case WORK_MEMSET:
		for (unsigned y = 0; y < w->height; y++)
			for (uint64_t x = 0; x < w->size; x += w->width)
				memcpy((char *)(uintptr_t)w->dst + y * w->pitch + x, &w->value,
				       w->width);
		run_on_timeline(s, w, copy_ns(w));
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

/* Capture begins and ends here; graphs are in libcuda_graph.c. */

static int run_begin_capture(struct call *c)
{
	struct stream *s = stream_of(c, c->w[0]);

	if (!s)
		return E_HANDLE;
	/* The legacy stream cannot be captured. */
	if (stream_is_legacy(s))
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

const struct impl impl_launch[] = {
	{"cuLaunchKernel", run_launch, IMPL_CONTEXT},
	{"cuLaunchCooperativeKernel", run_launch_coop, IMPL_CONTEXT},
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
