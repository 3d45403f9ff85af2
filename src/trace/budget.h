/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --max-overhead: keeps what tracing costs the busiest thread under a share of its time, by
 * counting the calls of the functions that are called most, then by looking at their entries only.
 * When there is room again, some of their calls are recorded, then all.
 */
#ifndef TRACE_BUDGET_H
#define TRACE_BUDGET_H

#include "source.h"

#include "attach/attach.h"
#include "model/event.h"

struct budget;

struct budget_opts {
	struct sources *sources; /* count, know what threads have spent, and are told the levels */
	struct fnset *fns;
	struct attach_cost cost;
	double max_share; /* 0.01 is 1 % */
	/* Says that a function's level was changed; the event is valid during the call only. */
	void (*fn)(void *ctx, const struct trace_event *ev);
	void *ctx;
};

struct budget *budget__new(const struct budget_opts *o);
void budget__free(struct budget *b);
/* A call was recorded. */
void budget__call(struct budget *b, const struct trace_event *ev);
/* Looks at what was spent; to be called a few times a second. */
void budget__tick(struct budget *b, uint64_t now_ns);

#endif /* TRACE_BUDGET_H */
