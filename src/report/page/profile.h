/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of calls and executions by call stack, for profiles (pprof.c). */
#ifndef REPORT_PAGE_PROFILE_H
#define REPORT_PAGE_PROFILE_H

#include "report/report.h"
#include "report/time/stage.h"
#include "util/out.h"

enum profile_value {
	PROFILE_HOST_NS,  /* in driver calls that are in no other */
	PROFILE_WAIT_NS,  /* of that, in calls that block */
	PROFILE_GPU_NS,	  /* of executions */
	PROFILE_CALLS,	  /* of all functions, also in other calls */
	PROFILE_LAUNCHES, /* of kernels */
	PROFILE_GRAPH_LAUNCHES,
	PROFILE_EXECUTIONS,
	PROFILE_ALLOC_BYTES, /* by successful driver calls that make memory */
	PROFILE_VALUE_CNT
};

/* Where a call was made. Texts are interned; NULL: none. */
struct profile_place {
	const char *function, *operator;
	const struct stack *stack;
	uint64_t stream; /* 1 + the handle; 0: none */
	uint32_t pid, tid;
};

struct profile_row {
	struct profile_place at;
	const char *comm; /* any bytes */
	const char *leaf; /* the kernel, or "[copy HtoD]"; NULL: none */
	uint64_t device;  /* 1 + its number; 0: none */
	enum stage stage;
	uint32_t iteration; /* its number, from 1; 0: none */
	uint64_t v[PROFILE_VALUE_CNT];
};

/* The values of a call, and the name of an execution (EVENT_GPU), as in the report. */
void profile_call_values(const struct trace_event *ev, uint64_t v[PROFILE_VALUE_CNT]);
const char *profile_executed(const struct trace_event *ev);
/* The function of an execution whose call is unknown. */
#define PROFILE_NO_CALL "[call not in the trace]"

struct profile;
/* NULL: out of memory. */
struct profile *profile__new(void);
void profile__free(struct profile *p);
void profile__event(struct profile *p, const struct report *r, const struct trace_event *ev);
/* The rows after the last event, sorted by process, thread, stack and names. *rest is the sum of
 * what limits rejected. Valid until profile__free(). NULL: out of memory. */
const struct profile_row *profile__rows(struct profile *p, const struct report *r, unsigned *cnt,
					uint64_t rest[PROFILE_VALUE_CNT]);

/* pprof.c: writes the gzip-compressed profile of a finished report with opts.pprof. Returns 0 or
 * -errno; errors of o stay in o. */
int pprof_write(const struct report *r, struct out *o);

#endif /* REPORT_PAGE_PROFILE_H */
