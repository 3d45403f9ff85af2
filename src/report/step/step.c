/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The critical path of an iteration: which calls, executions and gaps determined its time. Times of
 * calls and executions cannot be added up for that, because the host and the GPU work at the same
 * time. Each moment of an iteration belongs to one piece of the path, so the pieces add up to it.
 */
#include "step_priv.h"

#include <stdlib.h>
#include <string.h>

#include "model/call.h"
#include "model/event_path.h"
#include "model/gpu_busy.h"
#include "report/gpu/transfers.h"
#include "report/kernels/graphs.h"
#include "report/layers/communication.h"
#include "report/memory/memory.h"

static void steps__free(void *a)
{
	struct steps *s = a;

	memlimit_free(s->calls.rows);
	memlimit_free(s->execs.rows);
	memlimit_free(s->ranges.rows);
	step_graph_free(&s->graph);
	free(s->path.pieces);
	free(s);
}

/* The place of a new row; NULL: no memory for it. */
static void *ring_add(struct step_ring *ring, size_t size)
{
	void *rows;

	if (ring->cnt < STEP_KEPT) {
		rows = grow(ring->rows, &ring->cap, ring->cnt + 1, size, MEMLIMIT_STEPS);
		if (!rows)
			return NULL;
		ring->rows = rows;
		return (char *)rows + size * ring->cnt++;
	}
	ring->is_full = true;
	rows = (char *)ring->rows + size * ring->next;
	ring->next = (ring->next + 1) % STEP_KEPT;
	return rows;
}

static bool is_plan(const struct trace_event *ev)
{
	return ev->fn->op == OP_FINALIZE || strstr(ev->fn->name, "Heuristic") ||
	       !strncmp(ev->fn->name, "cudnnFind", 9) || !strncmp(ev->fn->name, "nvrtcCompile", 12);
}

/* Calls that make, query or finalize what others execute. */
static bool is_setup(enum api_op op)
{
	switch (op) {
	case OP_CREATE:
	case OP_DESTROY:
	case OP_SET:
	case OP_QUERY:
	case OP_DESCRIBE:
	case OP_DESCRIBED:
	case OP_FINALIZE:
		return true;
	default:
		return false;
	}
}

/* A call of the program whose result it could keep. Queries of streams and events poll them. */
static bool is_cacheable(const struct trace_event *ev)
{
	if (ev->is_error || ev->depth || ev->capturing)
		return false;
	switch (ev->fn->op) {
	case OP_QUERY:
	case OP_LOOKUP:
	case OP_DESCRIBED:
		return ev->fn->class != CLASS_STREAM && ev->fn->class != CLASS_EVENT;
	case OP_CREATE:
	case OP_DESTROY:
		return true;
	default:
		return false;
	}
}

static enum step_kind kind_of_call(const struct trace_event *ev)
{
	if (ev->fn->api != API_CUDA)
		return is_plan(ev) ? STEP_PLAN : STEP_LIBRARY;
	if (call_does(ev, DOES_LAUNCH | DOES_LAUNCH_GRAPH))
		return STEP_LAUNCH;
	switch (ev->fn->class) {
	case CLASS_TRANSFER:
		return STEP_COPY_CALL;
	case CLASS_MEMORY:
		return STEP_MEMORY;
	case CLASS_MODULE:
		return STEP_MODULE;
	case CLASS_GRAPH:
		return STEP_BUILD_GRAPH;
	default:
		return STEP_CALL;
	}
}

/* A stream's key: default streams are one per context, or per thread. */
static uint64_t stream_key(const struct steps *s, const struct trace_event *ev)
{
	uint64_t stream = call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);

	if (!stream)
		return pair_key(1, memory_context(s->r, ev));
	if (stream == CU_STREAM_PER_THREAD)
		return pair_key(pair_key(2, memory_context(s->r, ev)), ev->tid);
	return stream;
}

/* topics.c finds the others. */
static unsigned topics_of(const struct trace_event *ev, const struct step_call *c)
{
	if (!c->is_top)
		return 0;
	if (call_allocates(ev))
		return 1 << STEP_TOPIC_ALLOC;
	if (ev->fn->class == CLASS_MODULE && (ev->fn->op == OP_LOAD || ev->fn->op == OP_LINK))
		return 1 << STEP_TOPIC_MODULE;
	if (ev->fn->class == CLASS_GRAPH &&
	    (ev->fn->op == OP_INSTANTIATE || ev->fn->op == OP_UPDATE))
		return 1 << STEP_TOPIC_GRAPH;
	if (ev->fn->op == OP_QUERY && !ev->result)
		return 1 << STEP_TOPIC_QUERY;
	return c->submits && c->bytes && c->bytes < STEP_SMALL_COPY ? 1 << STEP_TOPIC_COPY : 0;
}

static void on_call(struct steps *s, const struct trace_event *ev)
{
	struct step_call *c = ring_add(&s->calls, sizeof(*c));
	uint64_t flags;

	if (!c)
		return;
	*c = (struct step_call){
		.start_ns = ev->start_ns,
		.end_ns = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns,
		.id = ev->id,
		.operator_id = ev->operator_id,
		.fn = ev->fn,
		.operator= ev->operator,
		.kernel = ev->has & HAS_LAUNCH ? ev->launch.kernel : NULL,
		.stack = ev->stack,
		.pid = ev->pid,
		.tid = ev->tid,
		.outer = STEP_NONE,
		.kind = kind_of_call(ev),
	};
	c->is_dnn_setup = ev->fn->class == CLASS_DNN && is_setup(ev->fn->op);
	c->is_top = !ev->is_error && call_is_top(ev);
	c->is_cacheable = is_cacheable(ev);
	if (communication_is_small(ev))
		c->topics = 1 << STEP_TOPIC_COLLECTIVE;
	if (ev->fn->api != API_CUDA)
		return;
	c->submits = call_submits(ev);
	c->launches = call_launches_any(ev);
	c->waits = call_blocks(ev);
	c->may_wait = call_may_block(ev);
	c->of_stream = ev->has & HAS_STREAM;
	c->of_event = ev->has & HAS_CU_EVENT;
	c->stream = stream_key(s, ev);
	c->is_legacy = !call_stream(ev, ev->has & HAS_STREAM ? ev->stream : 0);
	if (call_crosses(ev) && ev->has & HAS_SIZE) {
		c->bytes = ev->size;
		c->is_htod = ev->dir == COPY_DIR_HTOD;
		c->is_pageable = !ev->capturing && transfer_is_pageable(s->r, ev);
	}
	c->topics |= topics_of(ev, c);
	c->cu_event = c->of_event ? ev->cu_event : 0;
	c->creates_stream = ev->fn->class == CLASS_STREAM && ev->fn->op == OP_CREATE;
	c->is_blocking =
		c->creates_stream &&
		(event_path_u64(ev, "Flags", &flags) || event_path_u64(ev, "flags", &flags)) &&
		!flags;
}

static enum step_kind kind_of_exec(const struct trace_event *ev)
{
	switch (ev->op[0]) {
	case 'k':
		return gpu_is_collective(ev) ? STEP_COMMUNICATION : STEP_KERNEL;
	case 'c':
		return STEP_COPY;
	case 'm':
		return STEP_MEMSET;
	default:
		return STEP_GRAPH;
	}
}

static void on_exec(struct steps *s, const struct trace_event *ev)
{
	struct step_exec *x = ring_add(&s->execs, sizeof(*x));
	uint64_t queue = (uint64_t)ev->gpu.device << 48 | (uint64_t)ev->gpu.context << 24;

	if (x)
		*x = (struct step_exec){
			.start_ns = ev->start_ns,
			.end_ns = ev->end_ns > ev->start_ns ? ev->end_ns : ev->start_ns,
			.call_id = ev->gpu.call_id,
			.queue = queue ^ ev->gpu.gpu_stream,
			.kernel = ev->gpu.kernel,
			.pid = ev->pid,
			.graph_row = graphs_executed_row(s->r),
			.kind = kind_of_exec(ev),
		};
}

static void note_name(struct steps *s, const char *name)
{
	for (unsigned i = 0; i < s->range_name_cnt; i++)
		if (s->range_names[i] == name)
			return;
	if (s->range_name_cnt < STEP_RANGE_NAMES)
		s->range_names[s->range_name_cnt++] = name;
}

/* Keeps NVTX ranges, and the operators that changes name: there are many. */
static void on_range(struct steps *s, const struct trace_event *ev, const char *name)
{
	const struct report_opts *o = &s->r->opts;
	bool is_kept = ev->kind == EVENT_RANGE;
	struct step_range *range;

	if (!name || !*name)
		return;
	for (unsigned i = 0; i < o->change_cnt; i++) {
		if (o->changes[i].kind != CHANGE_GRAPH || !*o->changes[i].name)
			continue;
		note_name(s, name);
		is_kept |= !strcmp(o->changes[i].name, name);
	}
	range = is_kept ? ring_add(&s->ranges, sizeof(*range)) : NULL;
	if (range)
		*range = (struct step_range){
			.start_ns = ev->start_ns,
			.end_ns = ev->end_ns,
			.pid = ev->pid,
			.tid = ev->tid,
			.name = name,
		};
}

static void steps_event(void *a, const struct trace_event *ev)
{
	struct steps *s = a;

	if (ev->kind == EVENT_GPU)
		on_exec(a, ev);
	else if (ev->kind == EVENT_GPU_DEVICE && ev->gpu_device.capability.known &&
		 ev->gpu_device.capability.v > s->capability)
		s->capability = ev->gpu_device.capability.v;
	else if (ev->kind == EVENT_RANGE)
		on_range(s, ev, ev->range.text);
	else if (ev->kind == EVENT_OPERATOR)
		on_range(s, ev, ev->name);
	else if (call_took_time(ev))
		on_call(a, ev);
}

static void steps_finish(void *a)
{
	struct steps *s = a;
	struct iter_result iter;

	iter_result(s->r, &iter);
	if (iter.count && step_graph_make(s, &iter))
		step_parts_make(s, &iter);
	step_late_make(s, iter.count ? iter.steady_ns : 0);
	step_graph_free(&s->graph);
	free(s->path.pieces);
	s->path = (struct step_path){0};
	memlimit_free(s->calls.rows);
	memlimit_free(s->execs.rows);
	memlimit_free(s->ranges.rows);
	s->calls = s->execs = s->ranges = (struct step_ring){0};
}

const struct step_examples *step_late_examples(const struct report *r, uint32_t pid)
{
	const struct steps *s = r->an[AN_STEP];

	return s && s->lates.cnt && s->lates.of[0].pid == pid ? &s->lates : NULL;
}

const struct step_result *step_result(const struct report *r)
{
	const struct steps *s = r->an[AN_STEP];

	return s && s->res.steps[STEP_MEDIAN].part_cnt ? &s->res : NULL;
}

const struct analysis_ops step_ops = {
	.name = "step",
	.size = STATE_SIZE(struct steps),
	.event = steps_event,
	.finish = steps_finish,
	.section = &step_table,
	.print = step_print,
	.free = steps__free,
};
