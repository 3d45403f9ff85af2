/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What saved.c (events) and saved_trace.c (header, end) share. */
#ifndef SAVED_SAVED_PRIV_H
#define SAVED_SAVED_PRIV_H

#include "saved.h"

#include "decode/fnset.h"
#include "decode/nv/nv_decode.h"
#include "model/devices.h"
#include "model/event_table.h"
#include "model/capture.h"
#include "model/mem.h"
#include "call_ids.h"
#include "stack_pool.h"
#include "strings.h"
#include "util/memlimit.h"

#include <uthash.h>

/* No time is later, 146 years: sums of three do not overflow, and steps that double are enough. */
#define SAVED_NS_MAX (1ull << 62)

struct saved_proc {
	uint32_t pid;
	struct mem mem;
	struct capture_set captures;
	UT_hash_handle hh;
};

/* One of several traces. */
struct saved_trace {
	struct trace_info info;
	struct trace_end end;
	bool is_placed, has_end;
	uint64_t clock_base_ns; /* as its header has it */
	uint64_t run;		/* of the tracer: traces that have the same are of one */
	unsigned segment;	/* of the file at hand */
	struct trace_end split; /* what the ends of files before the last one say */
	void *lists[8];		/* that info and end point to */
	unsigned list_cnt;
	struct saved_trace *next;
};

/* A boot of a machine: where its CLOCK_MONOTONIC lies in the time of the first trace. */
struct saved_clock {
	struct trace_info info; /* of its first trace, as its header has it */
	uint64_t placed_ns;	/* what became of info.base_ns */
	uint32_t pid_add;
};
/* Traces of more are behind one another. */
#define CLOCKS_MAX 64

/* What all that are read as one share. */
struct saved_all {
	unsigned users;
	struct strings *strings;
	struct strings *types, *symbols; /* with tags */
	struct fnset *fns[2];
	struct memlimit_share fn_rows; /* in both, of functions that the table has not */
	struct saved_proc *procs, *last_proc;
	struct devices devices;
	struct call_ids *call_ids;

	unsigned trace_cnt;
	uint64_t first_ns, last_ns; /* where the first trace begins; the latest time so far */
	struct saved_clock clocks[CLOCKS_MAX];
	unsigned clock_cnt;
	unsigned ref; /* the clock that wall times are compared with */
};

#define SAVED_DEPTH_MAX 6

struct saved {
	struct saved_all *all;
	const struct string *last[EVENT_FIELD_CNT + 1]; /* what members said last, by key */
	/* By kind and key: 1 + the row; 0: its events have no such member. */
	uint8_t row_of[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	/* The same, of members that something is taken from; is a member shown as it stands? */
	uint8_t take_of[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	bool is_body[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	uint8_t head_of[EVENT_FIELD_CNT + 1]; /* by key: enum head of saved.c */
	uint8_t kind_of[TYPE_CNT];	      /* of types that calls do not have */
	struct parser *inner;		      /* for what lies in the header and the end */

	struct saved_trace *traces, *cur; /* cur: the last of them */
	uint64_t base_ns; /* of ts 0 in the trace at hand, in the time of the first */
	uint32_t pid_add; /* keeps processes of different traces apart */
	uint32_t pid;	  /* of the line at hand */
	char note[256];
	unsigned skipped;   /* files that are missing before the header that was read last */
	uint64_t end_lines; /* that are in its file by the end that was read last */
	bool end_is_exact;  /* and no others */

	struct stack_pool *stacks;
	struct parser *list; /* frames, while inner reads one of them */

	/* of the event at hand */
	struct event_text text;
	struct out *ordered; /* what was in another order, or not in one piece */
	struct parser *deep[SAVED_DEPTH_MAX];
	struct driver_info drv;
	struct nv_ioctl io;
	struct nv_class class;
	struct nv_rmctrl control;
	struct nv_sched sched;
};

/* NULL when there is none of that name. */
const struct member *parsed_find(const struct json_value *p, const char *name);

/* A row for every symbol, whatever it is: the table may be another cudatrace's. */
const struct api_fn *saved_fn(struct saved *s, const char *name, size_t len);
void saved_procs_clear(struct saved_all *all);
/* saved_stack.c */
/* A line of type stack: SAVED_STACK or -EINVAL. */
int saved_stack(struct saved *s, const struct json_value *p, const char **why);
/* NULL when it is not known. */
const struct stack *saved_stack_of(const struct saved *s, uint64_t id);
void saved_stack_ids_clear(struct saved *s);
void saved_stacks_free(struct saved *s);
/* saved_trace.c */
int saved_header(struct saved *s, const struct json_value *p, const char **why);
int saved_end(struct saved *s, const struct json_value *p);
void saved_traces_free(struct saved *s);

#endif /* SAVED_SAVED_PRIV_H */
