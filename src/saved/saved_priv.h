/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by saved.c (events), saved_trace.c (header, end) and saved_place.c (placement in time). */
#ifndef SAVED_SAVED_PRIV_H
#define SAVED_SAVED_PRIV_H

#include "saved.h"

#include "decode/fnset.h"
#include "decode/nv/nv_decode.h"
#include "model/devices.h"
#include "model/event_table.h"
#include "model/capture.h"
#include "model/mem.h"
#include "model/params.h"
#include "call_ids.h"
#include "clocks.h"
#include "stack_pool.h"
#include "strings.h"
#include "util/hash_table.h"
#include "util/memlimit.h"

/* The latest valid time (146 years): sums of three do not overflow, and doubles are precise
 * enough. */
#define SAVED_NS_MAX (1ull << 62)

struct saved_proc {
	struct hash_link link;
	uint32_t pid;
	struct mem mem;
	struct capture_set captures;
};
HASH_TABLE(saved_proc, pid);

/* One of several traces. */
struct saved_trace {
	struct trace_info info;
	struct trace_end end;
	bool is_placed, has_end;
	uint64_t clock_base_ns; /* as in its header */
	uint64_t run;		/* run of the tracer: traces of one run have the same number */
	unsigned segment;	/* number of the current file */
	struct trace_end split; /* sums of the ends of all files before the last */
	void *lists[8];		/* memory that info and end point to */
	unsigned list_cnt;
	struct saved_trace *next;
};

/* A boot of a machine: the offset of its CLOCK_MONOTONIC on the time line of the first trace. */
struct saved_clock {
	struct trace_info info; /* of its first trace, as in the header */
	uint64_t placed_ns;	/* where info.base_ns was placed */
	uint32_t pid_add;
};
/* Further traces are placed one after another. */
#define CLOCKS_MAX 64

/* Shared by all traces that are read together. */
struct saved_all {
	unsigned users;
	struct strings *strings;
	struct strings *types, *symbols; /* with tags */
	struct fnset *fns[2];
	struct memlimit_share fn_rows; /* rows in both sets for functions missing from the table */
	struct saved_proc_table procs;
	struct saved_proc *last_proc;
	struct devices devices;
	struct call_ids *call_ids;

	unsigned trace_cnt;
	uint64_t first_ns, last_ns; /* start of the first trace; latest time so far */
	struct saved_clock clocks[CLOCKS_MAX];
	unsigned clock_cnt;
	unsigned ref;			  /* the clock that wall times are compared with */
	const struct clocks *clock_units; /* NULL: they were not compared */
};

#define SAVED_DEPTH_MAX 6

struct saved {
	struct saved_all *all;
	const struct string *last[EVENT_FIELD_CNT + 1]; /* last value of a member, by key */
	/* By kind and key: 1 + the row; 0: events of this kind have no such member. */
	uint16_t row_of[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	/* Rows of members that are read, by kind and key; and whether a member is shown as written.
	 */
	uint16_t take_of[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	bool is_body[EVENT_KIND_CNT][EVENT_FIELD_CNT + 1];
	uint8_t head_of[EVENT_FIELD_CNT + 1]; /* by key: enum head of saved.c */
	uint8_t kind_of[TYPE_CNT];	      /* kind of the types that calls do not have */
	struct parser *inner;		      /* for nested values of the header and the end */

	struct saved_trace *traces, *cur; /* cur: the last of them */
	uint64_t base_ns; /* ts 0 of the current trace on the time line of the first */
	/* Its clock, and ts 0 on it; NULL: its times are only shifted. */
	const struct clock_unit *unit;
	uint64_t own_base_ns;
	uint32_t pid_add; /* offset that keeps process ids of different traces apart */
	uint32_t pid;	  /* process of the current line */
	char note[256];
	unsigned skipped; /* files missing before the header read last */
	struct saved_own_end own;

	struct stack_pool *stacks;
	struct parser *list; /* frames or parameters, while inner reads one of them */

	/* of the current event */
	struct event_text text;
	struct out *ordered; /* members that were in another order, or not contiguous */
	struct parser *deep[SAVED_DEPTH_MAX];
	struct launch_params params;
	struct parser *memory[2]; /* of a parameter: a list, one of it */
	struct driver_info drv;
	struct nv_ioctl io;
	struct nv_class class;
	struct nv_rmctrl control;
	struct nv_sched sched;
};

/* Whether two traces are of one boot of a machine. */
bool saved_same_boot(const struct trace_info *a, const struct trace_info *b);
/* A time of the current trace, in ns from its ts 0, on the time line of the first trace. */
uint64_t saved_time(const struct saved *s, uint64_t ns, bool negative);
/* Returns NULL when there is no such member. */
const struct member *parsed_find(const struct json_value *p, const char *name);

/* Returns a row for any symbol: the trace may come from another version with another table. */
const struct api_fn *saved_fn(struct saved *s, const char *name, size_t len);
void saved_procs_clear(struct saved_all *all);
/* saved_stack.c */
/* Handles a line of type stack. Returns SAVED_STACK or -EINVAL. */
int saved_stack(struct saved *s, const struct json_value *p, const char **why);
/* Returns NULL for an unknown id. */
const struct stack *saved_stack_of(const struct saved *s, uint64_t id);
void saved_stack_ids_clear(struct saved *s);
void saved_stacks_free(struct saved *s);
/* saved_trace.c, saved_place.c */
int saved_header(struct saved *s, const struct json_value *p, const char **why);
int saved_end(struct saved *s, const struct json_value *p);
void saved_traces_free(struct saved *s);

#endif /* SAVED_SAVED_PRIV_H */
