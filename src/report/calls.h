/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a call is to the analyses: the same answer for all of them. */
#ifndef REPORT_CALLS_H
#define REPORT_CALLS_H

#include "model/event.h"

static inline bool call_returned(const struct event *ev)
{
	return ev->kind == EVENT_CALL && ev->fn && !ev->unfinished && !ev->abandoned;
}

/* It gave the GPU what it says: it did not fail, and is no node of a graph that is captured. */
static inline bool call_ran(const struct event *ev)
{
	return !ev->is_error && !ev->capturing;
}

/* A kernel was launched. */
static inline bool call_launches(const struct event *ev)
{
	switch (ev->fn->op) {
	case OP_LAUNCH:
	case OP_LAUNCH_EX:
	case OP_LAUNCH_COOP:
	case OP_LAUNCH_GRID:
		return call_ran(ev);
	default:
		return false;
	}
}

static inline bool call_launches_graph(const struct event *ev)
{
	return ev->fn->op == OP_GRAPH_LAUNCH && !ev->is_error;
}

/* Waits by its nature: a synchronisation, or a copy between host and device that is not async. */
static inline bool call_blocks(const struct event *ev)
{
	if (ev->fn->op == OP_SYNC)
		return true;
	return ev->type == TYPE_TRANSFER && !ev->fn->is_async &&
	       (ev->dir == COPY_DIR_HTOD || ev->dir == COPY_DIR_DTOH);
}

/* May wait: it often does for pageable memory, or until what is freed is no longer in use. */
static inline bool call_may_block(const struct event *ev)
{
	switch (ev->fn->op) {
	case OP_FREE:
	case OP_FREE_HOST:
	case OP_FREE_ARRAY:
	case OP_UNREGISTER:
	case OP_UNLOAD:
		return true;
	default:
		return ev->type == TYPE_TRANSFER && ev->fn->is_async && !ev->capturing &&
		       (ev->dir == COPY_DIR_HTOD || ev->dir == COPY_DIR_DTOH);
	}
}

/* Gives the GPU something to do, as far as the call tells. */
static inline bool call_submits(const struct event *ev)
{
	return call_launches(ev) || call_launches_graph(ev) ||
	       (ev->type == TYPE_TRANSFER && call_ran(ev));
}

static inline uint64_t call_bytes(const struct event *ev, enum copy_dir dir)
{
	return (ev->has & HAS_SIZE) && ev->type == TYPE_TRANSFER && ev->dir == dir && !ev->capturing
		       ? ev->size
		       : 0;
}

#endif /* REPORT_CALLS_H */
