/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Prints the overhead of a trace and how to reduce it. */
#ifndef TEXT_OVERHEAD_H
#define TEXT_OVERHEAD_H

#include "model/trace.h"
#include "term.h"

/* "4.1 % of a thread's time; 6.2 % of the busiest second, of thread 7" */
void overhead_share(char *text, size_t size, const struct trace_end *end);
/* Prints a table; nothing if the end has no data. */
void overhead_print(const struct term *term, const struct trace_end *end);

#endif /* TEXT_OVERHEAD_H */
