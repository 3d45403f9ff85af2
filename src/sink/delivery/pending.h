/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls whose lines wait until the GPU has executed their work (--gpu-time), found by id. They are
 * added and removed in the same order.
 */
#ifndef SINK_DELIVERY_PENDING_H
#define SINK_DELIVERY_PENDING_H

#include "model/event.h"

/* CUPTI's records come after some 100 ms, but work may be enqueued long before it is done. Limits
 * of waiting time and memory. */
#define PENDING_NS     1000000000ull
#define PENDING_SZ_MAX (64 << 20)

/* Belongs to a call; its event's gpu_times points to it. */
struct pending_call {
	struct gpu_times times;
	uint64_t id;
	struct pending_call *next; /* next younger one in its chain */
};

struct pending_calls;

/* NULL: no memory. */
struct pending_calls *pending__new(void);
/* Adds the latest call. h belongs to the caller, and must stay at its address until it is
 * released. */
void pending__add(struct pending_calls *c, struct pending_call *h, uint64_t id);
/* EVENT_GPU; false: its call is not pending. */
bool pending__executed(struct pending_calls *c, const struct trace_event *ev);
/* Releases the oldest of all. */
void pending__release(struct pending_calls *c, const struct gpu_times *oldest);
/* c may be NULL. */
void pending__free(struct pending_calls *c);

#endif /* SINK_DELIVERY_PENDING_H */
