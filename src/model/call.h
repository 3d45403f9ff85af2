/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a call is: the same answer for outputs, metrics and analyses. What an op does is in
 * decode/cuda_ops.def. Of events with ev->fn only, but for call_was_made(). */
#ifndef MODEL_CALL_H
#define MODEL_CALL_H

#include "event.h"

/* It was not cut off: it returned (event_returned()), or its return was not looked at. */
static inline bool call_was_made(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && !ev->unfinished && !ev->abandoned;
}

/* Its thread was in it from start_ns to end_ns: it returned, or had not when its thread or the
 * trace ended. Nothing is known of how long an abandoned call lasted. */
static inline bool call_took_time(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && !ev->abandoned;
}

/* Not made in another call of its family. */
static inline bool call_is_outer(const struct trace_event *ev)
{
	return !ev->api_depth;
}

/* Of the driver, and not in another call of the driver: these follow each other in a thread and
 * make up its time in the driver, whatever libraries around them are traced, too. */
static inline bool call_is_top(const struct trace_event *ev)
{
	return ev->fn->api == API_CUDA && call_is_outer(ev);
}

/* It gave the GPU what it says: it did not fail, and is no node of a graph that is captured. */
static inline bool call_ran(const struct trace_event *ev)
{
	return !ev->is_error && !ev->capturing;
}

/* The stream that a handle means in this call: 0 is the legacy default stream, CU_STREAM_PER_THREAD
 * the thread's own. */
static inline uint64_t call_stream(const struct trace_event *ev, uint64_t handle)
{
	if (handle == CU_STREAM_LEGACY)
		return 0;
	return !handle && ev->fn->per_thread ? CU_STREAM_PER_THREAD : handle;
}

static inline bool call_does(const struct trace_event *ev, unsigned what)
{
	return op_does(ev->fn->op, what);
}

/* A kernel was launched. */
static inline bool call_launches(const struct trace_event *ev)
{
	return call_does(ev, DOES_LAUNCH) && call_ran(ev);
}

static inline bool call_launches_graph(const struct trace_event *ev)
{
	return call_does(ev, DOES_LAUNCH_GRAPH) && !ev->is_error;
}

static inline bool call_launches_any(const struct trace_event *ev)
{
	return call_launches(ev) || call_launches_graph(ev);
}

/* A transfer between host and device. */
static inline bool call_crosses(const struct trace_event *ev)
{
	return ev->type == TYPE_TRANSFER && (ev->dir == COPY_DIR_HTOD || ev->dir == COPY_DIR_DTOH);
}

/* Waits by its nature: a synchronisation, or a copy between host and device that is not async. */
static inline bool call_blocks(const struct trace_event *ev)
{
	return call_does(ev, DOES_WAIT) || (call_crosses(ev) && !ev->fn->is_async);
}

/* May wait: it often does for pageable memory, or until what is freed is no longer in use. */
static inline bool call_may_block(const struct trace_event *ev)
{
	return call_does(ev, MAY_WAIT) || (call_crosses(ev) && ev->fn->is_async && !ev->capturing);
}

/* Gives the GPU something to do, as far as the call tells. The type is known of functions that this
 * version's table lacks, too. */
static inline bool call_submits(const struct trace_event *ev)
{
	return (call_does(ev, DOES_SUBMIT) || ev->type == TYPE_TRANSFER) && call_ran(ev);
}

static inline uint64_t call_bytes(const struct trace_event *ev, enum copy_dir dir)
{
	return (ev->has & HAS_SIZE) && ev->type == TYPE_TRANSFER && ev->dir == dir && !ev->capturing
		       ? ev->size
		       : 0;
}

/* Memory: 1: it makes some, of that kind; -1: it frees; 0: neither. Resources of other APIs are
 * registered, too: they are none; nor is what a graph will make when it runs. */
static inline int call_makes(const struct trace_event *ev, enum block_kind *kind)
{
	const struct op_desc *op = &op_desc[ev->fn->op];

	*kind = ev->made ? (enum block_kind)(ev->made - 1) : (enum block_kind)op->block;
	return ev->fn->class == CLASS_MEMORY && !ev->capturing ? op->makes : 0;
}

#endif /* MODEL_CALL_H */
