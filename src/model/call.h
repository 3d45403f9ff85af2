/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Classification of calls, shared by outputs, metrics and analyses. decode/cuda_ops.def describes
 * each op. Only for events with ev->fn, except call_was_made(). */
#ifndef MODEL_CALL_H
#define MODEL_CALL_H

#include "event.h"

#include "decode/api_values.h"

/* The call returned (event_returned()), or its return was not probed. */
static inline bool call_was_made(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && !ev->unfinished && !ev->abandoned;
}

/* The thread was in the call from start_ns to end_ns: it returned, or had not when its thread or
 * the trace ended. The duration of an abandoned call is unknown. */
static inline bool call_took_time(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && !ev->abandoned;
}

/* The call was not made inside another call of its family. */
static inline bool call_is_outer(const struct trace_event *ev)
{
	return !ev->api_depth;
}

/* A driver call that is not inside another driver call. Such calls do not overlap in a thread.
 * Together they are its time in the driver, even if other libraries are traced too. */
static inline bool call_is_top(const struct trace_event *ev)
{
	return ev->fn->api == API_CUDA && call_is_outer(ev);
}

/* The call submitted its work to the GPU: it did not fail, and is not a node of a captured
 * graph. */
static inline bool call_ran(const struct trace_event *ev)
{
	return !ev->is_error && !ev->capturing;
}

/* The stream that a handle stands for in this call: 0 is the legacy default stream,
 * CU_STREAM_PER_THREAD the thread's own. */
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

/* The call launched a kernel. */
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

/* The call always waits: a synchronisation, or a copy between host and device that is not async. */
static inline bool call_blocks(const struct trace_event *ev)
{
	return call_does(ev, DOES_WAIT) || (call_crosses(ev) && !ev->fn->is_async);
}

/* The call may wait: often for pageable memory, or until freed memory is no longer in use. */
static inline bool call_may_block(const struct trace_event *ev)
{
	return call_does(ev, MAY_WAIT) || (call_crosses(ev) && ev->fn->is_async && !ev->capturing);
}

/* The call submits work to the GPU. The type is also known for functions that this version's table
 * lacks. */
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

/* Returns 1 if the call makes memory, of *kind; -1 if it frees memory; else 0. Registered resources
 * of other APIs are not counted, nor is memory that a graph will allocate when it runs. */
static inline int call_makes(const struct trace_event *ev, enum block_kind *kind)
{
	const struct op_desc *op = &op_desc[ev->fn->op];

	*kind = ev->made ? (enum block_kind)(ev->made - 1) : (enum block_kind)op->block;
	return ev->fn->class == CLASS_MEMORY && !ev->capturing ? op->makes : 0;
}

/* Returns 1 if the driver allocates memory each time, -1 if it frees memory; 0: it uses a pool, or
 * neither. */
static inline int call_allocates(const struct trace_event *ev)
{
	enum block_kind kind;
	int makes = call_makes(ev, &kind);

	if (block_desc[kind].counted == MEM_NONE || kind == BLOCK_POOL || kind == BLOCK_REGISTERED)
		return 0;
	return makes;
}

static inline bool call_makes_context(const struct trace_event *ev)
{
	return ev->fn->class == CLASS_CONTEXT && !ev->is_error &&
	       (ev->fn->op == OP_RETAIN || ev->fn->op == OP_CREATE);
}

#endif /* MODEL_CALL_H */
