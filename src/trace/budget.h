/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --max-overhead keeps the cost of tracing the busiest thread under a share of its time. It first
 * counts the calls of the functions that are called most, then probes only their entries. When the
 * cost allows, some of their calls are recorded, then all.
 */
#ifndef TRACE_BUDGET_H
#define TRACE_BUDGET_H

#include "source.h"

#include "attach/attach.h"
#include "model/event.h"

struct budget;

struct budget_opts {
	struct sources *sources; /* they count, report the threads' overhead, and receive levels */
	struct fnset *fns;
	struct attach_cost cost;
	double max_share; /* 0.01 is 1 % */
	/* Reports that a function's level was changed; the event is valid during the call only. */
	void (*fn)(void *ctx, const struct trace_event *ev);
	void *ctx;
};

struct budget *budget__new(const struct budget_opts *o);
void budget__free(struct budget *b);
/* To be called for each recorded call. */
void budget__call(struct budget *b, const struct trace_event *ev);
/* Checks the overhead; to be called a few times per second. */
void budget__tick(struct budget *b, uint64_t now_ns);

#endif /* TRACE_BUDGET_H */
