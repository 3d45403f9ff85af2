/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Explains waits while they last: the part of a report that knows which work has not completed. */
#ifndef SINK_WAIT_WATCH_H
#define SINK_WAIT_WATCH_H

#include "model/trace.h"
#include "report/failure/failure.h"

struct wait_watch;

/* info must live as long. filtered: the trace leaves calls out, so nothing is certain. NULL: out of
 * memory. */
struct wait_watch *wait_watch__new(const struct trace_info *info, bool filtered);
/* Explains waits only by the use of the GPU. */
struct wait_watch *wait_watch__new_of_gpu(void);
void wait_watch__free(struct wait_watch *w);
void wait_watch__event(struct wait_watch *w, const struct trace_event *ev);
/* Explains a call in flight, from model__wait(). */
void wait_watch__explain(struct wait_watch *w, const struct trace_event *wait,
			 struct failure_wait *res);

#endif /* SINK_WAIT_WATCH_H */
