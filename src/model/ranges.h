/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVTX: which ranges a thread is in. Calls of NVTX are no events: a range is one when it ends, a
 * mark at once. Texts are the program's: any bytes, as long as records hold; there is one of each
 * in a process, which lives as long as a range, a handle or a category has it.
 */
#ifndef MODEL_RANGES_H
#define MODEL_RANGES_H

#include "event.h"
#include "trace.h"

#include "util/quota.h"

struct annotations;
struct proc;
struct range_name;
struct range_text;
struct thread;

/* One that has begun and not ended. */
struct range {
	uint64_t id; /* unique in the trace */
	uint64_t parent_id, start_ns;
	uint64_t
		number; /* that nvtxRangeStart gave; 0: it was pushed, or the number is not known */
	uint64_t domain; /* handle */
	uint64_t payload[2];
	struct range_text *text, *domain_name, *category_name;
	uint32_t tid, level, lane, category, color, schema;
	bool is_started, has_color;
	uint8_t payload_kind;
	struct range *outer;   /* of the thread */
	struct range *started; /* of the process: the next */
};

struct proc_ranges {
	struct range_text *texts;
	struct range_name *names; /* of domains, strings and categories, by handle */
	struct range *started;
	struct quota_share share;
};

/* Of a model. */
struct ranges {
	void (*fn)(void *ctx, const struct trace_event *ev);
	void *ctx;
	struct quotas *quotas;
	uint64_t min_duration_ns;
	bool no_texts; /* they are redacted */
	uint64_t last_id, last_ns;
	struct trace_nvtx cnt;
};

/* A call of NVTX. returned: what it did, as far as it is known. */
void ranges__call(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		  struct proc *p, struct thread *t, uint32_t returned);
/* The innermost that the thread was in at that time; NULL: none. */
const struct range *thread_range_at(const struct thread *t, uint64_t ns);
const char *range__text(const struct range *r);
/* They will not end: the process has, or the trace. */
void ranges__unfinished(struct ranges *r, struct proc *p, uint64_t now);
void thread_ranges__free(struct quotas *q, struct proc *p, struct thread *t);
/* After its threads. */
void proc_ranges__free(struct quotas *q, struct proc *p);

/* Ranges, and operators of PyTorch: what is drawn above the threads. */
static inline bool event_is_range(const struct trace_event *ev)
{
	return ev->kind == EVENT_RANGE || ev->kind == EVENT_OPERATOR;
}

/* Pictures have rows of them above the threads of their process: one for the ranges of a thread in
 * a domain, which are in each other, and one for each lane of those that are not. A thread id that
 * no thread has, and what it is called. */
#define RANGE_ROW_TID	  (1u << 29)
#define RANGE_ROW_NAME_SZ 48
uint32_t range_row_tid(const struct trace_event *ev);
void range_row_name(const struct trace_event *ev, char buf[RANGE_ROW_NAME_SZ]);

#endif /* MODEL_RANGES_H */
