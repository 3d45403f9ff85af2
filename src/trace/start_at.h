/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Waits for the time at which a trace begins, so that several machines record the same window. */
#ifndef TRACE_START_AT_H
#define TRACE_START_AT_H

#include "session_opts.h"

/* Waits, if the options say so. *begin_ns: CLOCK_MONOTONIC at that time; 0: there was none. Returns
 * 0 or EXIT_USAGE after printing an error. */
int start_at__wait(const struct session_opts *o, uint64_t *begin_ns);

#endif /* TRACE_START_AT_H */
