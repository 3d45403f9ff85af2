/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds when the host knew that a collective had ended, in traces without GPU times: at the end of
 * a wait for its stream, for its context, or for an event recorded after it, also by way of another
 * stream that waited for that event.
 */
#ifndef SAVED_CLOCK_WAITS_H
#define SAVED_CLOCK_WAITS_H

#include "model/event.h"

struct clock_seen;
struct wait_proc;

/* A zeroed struct is empty. */
struct clock_waits {
	struct wait_proc *procs;
};

/* A collective that began; row: its number in `seen` below. */
void clock_waits__collective(struct clock_waits *w, const struct trace_event *ev, unsigned row);
/* Sets the end of rows of seen. */
void clock_waits__event(struct clock_waits *w, const struct trace_event *ev,
			struct clock_seen *seen);
/* Forgets collectives whose end is not known yet. */
void clock_waits__forget(struct clock_waits *w);
void clock_waits__free(struct clock_waits *w);

#endif /* SAVED_CLOCK_WAITS_H */
