/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A progress line on a terminal while the trace runs: events and launches per second, live device
 * memory, losses. Made only when stderr is a terminal, without --quiet.
 */
#ifndef SINK_SUMMARY_PROGRESS_H
#define SINK_SUMMARY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "summary.h"

struct progress;

/* NULL when f is not a terminal, or out of memory; every function here accepts NULL. */
struct progress *progress__new(FILE *f);
/* For tests: a file with this many columns, which need not be a terminal. */
struct progress *progress__new_width(FILE *f, int width);
/* Clears the line. */
void progress__free(struct progress *p);
/* May be called at any rate: draws at most four times per second. now_ns is any clock that does not
 * go back. */
void progress__update(struct progress *p, uint64_t now_ns, const struct summary_totals *t,
		      uint64_t drop_cnt);
/* To be called before other output to the terminal; the next update draws again. */
void progress__clear(struct progress *p);

#endif /* SINK_SUMMARY_PROGRESS_H */
