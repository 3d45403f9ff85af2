/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Changes between two traces: any change of a count, and changes of a time above noise. */
#ifndef REPORT_DIFF_H
#define REPORT_DIFF_H

#include "report.h"

/* Smaller relative differences of a time are noise. */
#define DIFF_NOISE 0.10

struct diff;
struct section_table;
/* Its JSON is the members of diff_head, of "rejected" (losses.h) and of diff. */
extern const struct section_table diff_head_table, diff_table;

/* Trace infos and event strings must live as long as it. NULL: out of memory. */
struct diff *diff__new(const struct report_opts *opts);
void diff__free(struct diff *d);
/* side: 0 the old trace, 1 the new one. A trace of several parts: the first header counts. */
int diff__begin(struct diff *d, int side, const struct trace_info *info);
void diff__event(struct diff *d, int side, const struct trace_event *ev);
void diff__end(struct diff *d, int side, const struct trace_info *info,
	       const struct trace_end *end);
/* Sets what is missing in the trace's file, after it was read. */
void diff__file(struct diff *d, int side, const struct saved_file *file);
/* Call it after both traces. Sorts by change, largest first; returns the number of differences. */
unsigned diff__finish(struct diff *d);
/* Returns whether nothing differs although equal sums prove nothing: records are missing, or names
 * or arguments are hidden in one trace only. Valid after diff__finish(). */
bool diff__is_unknown(const struct diff *d);
void diff__print(const struct diff *d, const struct term *term, unsigned top);
void diff__json(const struct diff *d, struct json *j);

#endif /* REPORT_DIFF_H */
