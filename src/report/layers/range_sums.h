/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Time and work in NVTX ranges or PyTorch operators, by name; for summaries and reports. Sums of a
 * range include the ranges in it. */
#ifndef REPORT_LAYERS_RANGE_SUMS_H
#define REPORT_LAYERS_RANGE_SUMS_H

#include "model/event.h"
#include "model/trace.h"
#include "text/json.h"
#include "text/term.h"

struct range_sums;

/* Returns NULL if out of memory. */
struct range_sums *range_sums__new(bool of_operators);
void range_sums__free(struct range_sums *s);
/* Adds a range or operator, a call or an execution. Keeps no pointers into it. */
void range_sums__event(struct range_sums *s, const struct trace_event *ev);
/* top: maximum number of rows; end: may be NULL. Prints nothing without ranges. */
void range_sums__print(struct range_sums *s, const struct term *term, const struct trace_end *end,
		       unsigned top);
/* Writes an object of that name; nothing without ranges. */
void range_sums__json(struct range_sums *s, struct json *j, const char *name);

#endif /* REPORT_LAYERS_RANGE_SUMS_H */
