/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVTX ranges of threads. Calls of NVTX are not events: a range becomes an event when it ends, a
 * mark at once. Texts are set by the program: any bytes, up to the size of records. A process has
 * one copy per text, which lives as long as a range, a handle or a category uses it.
 */
#ifndef MODEL_RANGES_H
#define MODEL_RANGES_H

#include "event.h"
#include "trace.h"

#include "util/limits.h"

struct annotations;
struct proc;
HASH_TABLE_TYPE(range_name);
HASH_TABLE_TYPE(range_text);
struct thread;

/* An open range. */
struct range {
	uint64_t id; /* unique in the trace */
	uint64_t parent_id, start_ns;
	uint64_t number; /* from nvtxRangeStart; 0: pushed, or unknown */
	uint64_t domain; /* handle */
	uint64_t payload[2];
	struct range_text *text, *domain_name, *category_name;
	uint32_t tid, level, lane, category, color, schema;
	bool is_started, has_color;
	uint8_t payload_kind;
	struct range *outer;   /* enclosing range of the thread */
	struct range *started; /* next started range of the process */
};

struct proc_ranges {
	struct range_text_table texts;
	struct range_name_table names; /* names of domains, strings and categories, by handle */
	struct range *started;
	struct quota_share share;
};

/* A range with this text begins or ends; text: NULL if it has none. */
typedef void (*range_fn)(void *ctx, const char *text, uint64_t ns, bool begins);

/* The ranges of a model. */
struct ranges {
	void (*fn)(void *ctx, const struct trace_event *ev);
	range_fn on_range; /* or NULL */
	void *ctx;
	struct quotas *quotas;
	uint64_t min_duration_ns;
	bool no_texts; /* texts are redacted */
	uint64_t last_id, last_ns;
	struct trace_nvtx cnt;
};

/* Handles a call of NVTX. returned: its return value, as far as known. */
void ranges__call(struct ranges *r, const struct annotations *m, const struct trace_event *ev,
		  struct proc *p, struct thread *t, uint32_t returned);
/* Returns the innermost range of the thread at that time; NULL: none. */
const struct range *thread_range_at(const struct thread *t, uint64_t ns);
const char *range__text(const struct range *r);
/* Delivers the open ranges, because the process or the trace has ended. */
void ranges__unfinished(struct ranges *r, struct proc *p, uint64_t now);
void thread_ranges__free(struct quotas *q, struct proc *p, struct thread *t);
/* Call it after thread_ranges__free() of its threads. */
void proc_ranges__free(struct quotas *q, struct proc *p);

/* Returns whether the event is an NVTX range or a PyTorch operator: timelines draw them above the
 * threads. */
static inline bool event_is_range(const struct trace_event *ev)
{
	return ev->kind == EVENT_RANGE || ev->kind == EVENT_OPERATOR;
}

/* Timelines have rows of ranges above the threads of their process. The nested ranges of a thread
 * in a domain share one row; each lane of started ranges has one. Returns the row ID, which no
 * thread has; the next function names the row. */
#define RANGE_ROW_TID	  (1u << 29)
#define RANGE_ROW_NAME_SZ 48
uint32_t range_row_tid(const struct trace_event *ev);
void range_row_name(const struct trace_event *ev, char buf[RANGE_ROW_NAME_SZ]);

#endif /* MODEL_RANGES_H */
