/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cudatrace top: which processes use CUDA now, and how much. A view of a tracing session
 * (session_opts.h) that counts calls instead of recording them. On a terminal it is redrawn each
 * interval; otherwise it prints a table of text, or JSON, after each.
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include "trace/session_opts.h"

struct top_opts {
	uint64_t interval_ns;
	uint64_t tables; /* number of text tables; 0: on a terminal a screen, else one table */
	bool json;
};

/* Returns the exit status. */
int top_run(const struct session_opts *trace, const struct top_opts *o);

#endif /* TOP_TOP_H */
