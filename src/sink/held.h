/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls whose lines are held back until the GPU has executed what they asked for (--gpu-time),
 * found by their ids. They come and go in one order.
 */
#ifndef SINK_HELD_H
#define SINK_HELD_H

#include "model/event.h"

/* CUPTI's records come after some 100 ms, but work may be asked for long before it is done. What
 * waits takes so much memory at most. */
#define HELD_NS	    1000000000ull
#define HELD_SZ_MAX (64 << 20)

/* Of a call, and where its event's gpu_times points. */
struct held {
	struct gpu_times times;
	uint64_t id;
	struct held *next; /* younger, in its chain */
};

struct held_calls;

/* NULL: no memory. */
struct held_calls *held__new(void);
/* The call is the youngest. h is the caller's, and stays where it is until it is let go. */
void held__add(struct held_calls *c, struct held *h, uint64_t id);
/* EVENT_GPU; false: its call is not held. */
bool held__executed(struct held_calls *c, const struct trace_event *ev);
/* The oldest of all. */
void held__let_go(struct held_calls *c, const struct gpu_times *oldest);
/* NULL is fine. */
void held__free(struct held_calls *c);

#endif /* SINK_HELD_H */
