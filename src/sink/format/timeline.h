/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names and texts shared by the two timelines, Chrome's and Perfetto's. */
#ifndef SINK_FORMAT_TIMELINE_H
#define SINK_FORMAT_TIMELINE_H

#include "chrome_flow.h"
#include "model/event.h"
#include "model/gpu.h"
#include "model/ranges.h"
#include "model/trace.h"

#include <string.h>

#define TIMELINE_NAME_SZ 96

/* Returns whether it is shown without a duration. Samples of GPUs are counters. */
bool timeline_is_instant(const struct trace_event *ev);
/* The name of a slice or an instant: a launch has its kernel's name. In buf, or in the event. */
const char *timeline_name(const struct trace_event *ev, char buf[TIMELINE_NAME_SZ], size_t *len);
/* The kernel whose name it has; NULL: none. */
static inline const char *timeline_kernel(const struct trace_event *ev)
{
	return ev->kind == EVENT_GPU  ? ev->gpu.kernel
	       : ev->has & HAS_LAUNCH ? ev->launch.kernel
				      : NULL;
}
/* GPU executions are drawn below the threads of their process: a row for each stream. NVTX's ranges
 * are drawn above them. */
struct timeline_place {
	struct trace_event ev;
	char row[GPU_ROW_NAME_SZ > RANGE_ROW_NAME_SZ ? GPU_ROW_NAME_SZ : RANGE_ROW_NAME_SZ];
	bool has_call;
	struct flow_launch call; /* call that enqueued it */
};
/* The event as it is drawn: ev, or &to->ev. */
const struct trace_event *timeline_place(const struct trace_event *ev, struct timeline_place *to);
/* Returns whether it has a duration: a slice and not an instant. */
static inline bool timeline_is_slice(const struct trace_event *ev)
{
	return ev->kind == EVENT_CALL || ev->kind == EVENT_DRIVER || ev->kind == EVENT_GPU ||
	       ev->kind == EVENT_CTXSW || ev->kind == EVENT_OPERATOR ||
	       (ev->kind == EVENT_RANGE && strcmp(ev->op, "mark") != 0);
}
/* EVENT_CTXSW: the name of a GPU's row. */
void timeline_gpu_row(const struct trace_event *ev, char buf[TIMELINE_NAME_SZ]);
/* How a call ended: "unfinished", "result", "error". ok: also success results. */
void timeline_result(const struct trace_event *ev, struct visitor *v, bool ok);
/* Members of "trace begins" and of "trace ends". */
void timeline_begin(const struct trace_info *info, struct visitor *v);
void timeline_end(const struct trace_end *end, uint64_t not_written, uint64_t forgotten,
		  struct visitor *v);
#define TIMELINE_LOST_SZ 512
/* "INCOMPLETE, missing: ..." in buf; false: nothing is missing, or the trace continues in another
 * file. */
bool timeline_lost(const struct trace_end *end, uint64_t not_written, char buf[TIMELINE_LOST_SZ]);
/* Members of that: the numbers by kind. */
void timeline_losses(const struct trace_end *end, uint64_t not_written, struct visitor *v);

#endif /* SINK_FORMAT_TIMELINE_H */
