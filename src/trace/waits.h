/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --hang-after: reports each call that waits longer than this, with the work that it waits for, and
 * again when it has ended.
 */
#ifndef TRACE_WAITS_H
#define TRACE_WAITS_H

#include "tracer.h"

struct waits;

struct waits_opts {
	struct tracer *tracer; /* its info is filled */
	uint64_t after_ns;
	bool only_calls; /* report the calls without the work that they wait for */
	bool filtered;	 /* the trace leaves calls out */
	bool of_users;	 /* of several users: each may have half of the waits */
	model_event_fn fn;
	void *ctx;
};

/* NULL: out of memory. */
struct waits *waits__new(const struct waits_opts *o);
void waits__free(struct waits *w);
/* Takes an event of the trace, also those that other parts of the tracer make. w may be NULL. */
void waits__event(struct waits *w, const struct trace_event *ev);
/* Looks at the calls in flight if that is due. w may be NULL. */
void waits__look(struct waits *w, uint64_t now);
/* Waits reported so far, and those that last. w may be NULL. */
uint64_t waits__reported(const struct waits *w);
unsigned waits__lasting(const struct waits *w);
/* Makes the event of a call in flight, if the call waits or may wait: as its line would be if the
 * trace ended now. */
struct ct_frame;
bool wait_in_flight(struct model *m, const struct seen_thread *seen, const struct ct_frame *f,
		    uint64_t now, struct trace_event *ev);
/* When the next look is due; 0: never. */
uint64_t waits__next_ns(const struct waits *w);

#endif /* TRACE_WAITS_H */
