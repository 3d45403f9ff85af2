/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The end lines of several traces as one. */
#ifndef SAVED_END_SUM_H
#define SAVED_END_SUM_H

#include "model/trace.h"

/* Zeroed is empty. */
struct end_sum {
	struct trace_end end;
	struct trace_count *counts; /* of end, if there are several traces */
	unsigned cnt;		    /* traces */
};

/* base_ns: when the first trace begins, for the share of the overhead; UINT64_MAX: unknown. What
 * end points to must live as long as the sum. */
void end_sum__add(struct end_sum *s, const struct trace_end *end, uint64_t base_ns);
void end_sum__free(struct end_sum *s);

#endif /* SAVED_END_SUM_H */
