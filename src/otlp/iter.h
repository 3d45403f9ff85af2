/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations as spans: a thread's work between the ends of two calls of a marker. */
#ifndef OTLP_ITER_H
#define OTLP_ITER_H

#include "message.h"
#include "util/limits.h"

struct otlp_iters;

/* quota: for all processes; a process has a share of it. */
struct otlp_iters *otlp_iters__new(struct quota *quota);
void otlp_iters__free(struct otlp_iters *its);
/* To be called for a call that has returned. changes: a changed value means that calls were missed
 * meanwhile. Returns the ids of the call's iteration, NULL when it is in none. */
const struct otlp_ids *otlp_iters__call(struct otlp_iters *its, const struct trace_event *ev,
					uint64_t changes);
/* To be called next if the call is a marker. If an iteration ends with it: fills s, which starts as
 * the call's span, and returns true. The next iteration begins. */
bool otlp_iters__mark(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes,
		      struct otlp_span *s, uint64_t epoch_ns);
/* The process has ended, or runs another program. */
void otlp_iters__forget(struct otlp_iters *its, uint32_t pid);

#endif /* OTLP_ITER_H */
