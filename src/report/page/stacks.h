/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time by process, stage, class, function and kernel, for flame graphs. */
#ifndef REPORT_PAGE_STACKS_H
#define REPORT_PAGE_STACKS_H

#include "report/report.h"

#define STACK_DEPTH 5

struct folded_stack {
	const char *frames[STACK_DEPTH]; /* outermost first; NULL: no more */
	uint64_t cnt, total_ns;
	enum api_class class;
};

/* Sorted by frames, so that stacks with a common prefix are adjacent. Valid as long as the
 * report. */
const struct folded_stack *stacks_folded(const struct report *r, unsigned *cnt);

/* flame.c: writes lines "frame;frame;... nanoseconds" for flame graph tools. */
void flame_fold(const struct report *r, struct out *o);
void flame_frame(struct out *o, const char *s);
/* If the trace is incomplete, each stack begins with a frame that reports it: every viewer shows
 * it, and times stay as they are. */
void flame_root(const struct report *r, struct out *o);
/* flame_svg.c: writes one self-contained SVG: click to zoom, search. */
void flame_svg(const struct report *r, struct out *o);

#endif /* REPORT_PAGE_STACKS_H */
