/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations as spans: what a thread does between the ends of two calls of a marker. */
#ifndef OTLP_ITER_H
#define OTLP_ITER_H

#include "message.h"
#include "util/quota.h"

struct otlp_iters;

/* quota: of all; a share is a process's. */
struct otlp_iters *otlp_iters__new(struct quota *quota);
void otlp_iters__free(struct otlp_iters *its);
/* A call that has returned. changes: when it is not what it was, calls were missed meanwhile. The
 * ids of the iteration that it is in, NULL when it is in none. */
const struct otlp_ids *otlp_iters__call(struct otlp_iters *its, const struct trace_event *ev,
					uint64_t changes);
/* After that, when the call is a marker: fills in s, which begins as the call's, and true, when an
 * iteration ends with it. The next one begins. */
bool otlp_iters__mark(struct otlp_iters *its, const struct trace_event *ev, uint64_t changes,
		      struct otlp_span *s, uint64_t epoch_ns);
/* The process is gone, or runs another program. */
void otlp_iters__forget(struct otlp_iters *its, uint32_t pid);

#endif /* OTLP_ITER_H */
