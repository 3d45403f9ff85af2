/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls whose lines are held back until the GPU has executed what they asked for (--gpu-time),
 * found by their ids. They come and go in one order.
 */
#ifndef SINK_DELIVERY_PENDING_H
#define SINK_DELIVERY_PENDING_H

#include "model/event.h"

/* CUPTI's records come after some 100 ms, but work may be asked for long before it is done. What
 * waits takes so much memory at most. */
#define PENDING_NS     1000000000ull
#define PENDING_SZ_MAX (64 << 20)

/* Of a call, and where its event's gpu_times points. */
struct pending_call {
	struct gpu_times times;
	uint64_t id;
	struct pending_call *next; /* younger, in its chain */
};

struct pending_calls;

/* NULL: no memory. */
struct pending_calls *pending__new(void);
/* The call is the youngest. h is the caller's, and stays where it is until it is let go. */
void pending__add(struct pending_calls *c, struct pending_call *h, uint64_t id);
/* EVENT_GPU; false: its call is not held. */
bool pending__executed(struct pending_calls *c, const struct trace_event *ev);
/* The oldest of all. */
void pending__release(struct pending_calls *c, const struct gpu_times *oldest);
/* NULL is fine. */
void pending__free(struct pending_calls *c);

#endif /* SINK_DELIVERY_PENDING_H */
