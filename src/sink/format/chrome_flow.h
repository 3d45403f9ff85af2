/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the launch that a synchronisation waited for: the arrows of the Chrome trace and of
 * Perfetto's.
 *
 * Only the last launch on the stream before the call is known on the host. Not followed: waits
 * between streams (cuStreamWaitEvent), the legacy default stream's waits for all others, and
 * contexts (cuCtxSynchronize is taken to wait for every stream of the process).
 */
#ifndef SINK_FORMAT_CHROME_FLOW_H
#define SINK_FORMAT_CHROME_FLOW_H

#include "model/event.h"

struct flows;

struct flow_launch {
	uint64_t start_ns;
	uint64_t seq; /* order of launches; 0: none */
	uint32_t tid;
};

/* One arrow, from a launch to the call `to`, which waited for it. */
typedef void (*flow_fn)(void *ctx, const struct flow_launch *from, const struct trace_event *to);

/* NULL when there is no memory. */
struct flows *flows__new(void);
void flows__free(struct flows *f);
/* Calls fn for each launch that ev waited for, at most once for a launch and a stream. */
void flows__event(struct flows *f, const struct trace_event *ev, flow_fn fn, void *ctx);

/* Number of launches so far. */
uint64_t flows__seq(const struct flows *f);
/* Streams, events and processes that were dropped to make space: arrows may be missing. */
uint64_t flows__forgotten(const struct flows *f);

#endif /* SINK_FORMAT_CHROME_FLOW_H */
