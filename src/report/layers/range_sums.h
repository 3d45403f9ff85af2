/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What ranges of NVTX, or operators of PyTorch, took and what was done in them, by their names: for
 * summaries and reports. One has what those in it have, too. */
#ifndef REPORT_LAYERS_RANGE_SUMS_H
#define REPORT_LAYERS_RANGE_SUMS_H

#include "model/event.h"
#include "model/trace.h"
#include "text/json.h"
#include "text/term.h"

struct range_sums;

/* NULL: no memory. */
struct range_sums *range_sums__new(bool of_operators);
void range_sums__free(struct range_sums *s);
/* Of ranges or operators, calls and executions. Nothing of it is kept but copies. */
void range_sums__event(struct range_sums *s, const struct trace_event *ev);
/* top: rows at most; end: or NULL. Nothing when there was none. */
void range_sums__print(struct range_sums *s, const struct term *term, const struct trace_end *end,
		       unsigned top);
/* An object of that name; nothing when there was none. */
void range_sums__json(struct range_sums *s, struct json *j, const char *name);

#endif /* REPORT_LAYERS_RANGE_SUMS_H */
