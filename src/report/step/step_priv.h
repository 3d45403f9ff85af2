/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the analysis of the critical path.
 *
 * step.c keeps the latest calls and executions. After the last event, graph.c turns those of the
 * process with iterations into a dependency graph: intervals of its threads, and what each
 * execution and each wait depended on. path.c walks the graph backwards from the end: the critical
 * path. It covers every moment once. parts.c cuts it at the steps.
 */
#ifndef REPORT_STEP_STEP_PRIV_H
#define REPORT_STEP_STEP_PRIV_H

#include "report/collect.h"
#include "report/iter/iter.h"
#include "replay.h"
#include "step.h"

/* Calls, executions and ranges that are kept, each: 55 MB together. */
#define STEP_KEPT (1u << 18)
#define STEP_NONE UINT32_MAX

#define STEP_SMALL_COPY 65536 /* smaller copies can be joined */

struct step_call {
	uint64_t start_ns, end_ns, id;
	uint64_t stream,
		cu_event; /* keys, with the process or thread where handles need it; 0: none */
	uint64_t operator_id;
	uint64_t bytes; /* of a copy between host and device */
	const struct api_fn *fn;
	const char *operator;
	const char *kernel; /* of a launch */
	const struct stack *stack;
	uint32_t pid, tid;
	uint32_t outer;	 /* graph.c: the call that it is in; STEP_NONE: none */
	uint8_t kind;	 /* enum step_kind */
	uint16_t topics; /* bits of enum step_topic */
	bool is_top, submits, waits, may_wait, launches, is_legacy, creates_stream, is_blocking,
		is_htod, is_pageable, is_dnn_setup, is_cacheable, of_stream, of_event;
};

struct step_exec {
	uint64_t start_ns, end_ns, call_id, queue; /* queue: key of device, context and stream */
	const char *kernel;
	uint32_t pid;
	uint32_t graph_row; /* of graphs_executed_row() */
	uint8_t kind;
	/* graph.c */
	uint32_t call;	    /* that requested it; STEP_NONE: not kept */
	uint32_t before[2]; /* executions that had to end first: of its stream, of another stream or
			       the same graph; STEP_NONE: none */
};

/* Keeps the latest rows in a ring. */
struct step_ring {
	void *rows;
	uint32_t cnt, cap, next;
	bool is_full;
};

/* An interval of a thread in a call. */
struct step_seg {
	uint64_t start_ns, end_ns;
	uint32_t call;
	bool is_plan;	     /* in a call that builds plans, or between such calls of cuDNN */
	bool is_plan_before; /* so is the time before it, since the interval before */
	uint8_t gap;	     /* enum step_gap_kind of the time before it; 0: none */
};

struct step_thread {
	uint32_t tid;
	uint32_t first, cnt; /* its segments */
	uint32_t launch_cnt;
	bool alternates; /* it makes no calls while the main thread does: autograd's threads */
};

#define STEP_THREADS 64

struct step_graph {
	struct step_call *calls; /* of the process, by start */
	struct step_exec *execs; /* by end */
	uint32_t call_cnt, exec_cnt;
	uint32_t *target; /* of each call: the execution that it waits for; STEP_NONE: none */
	struct step_seg *segs;
	uint32_t seg_cnt;
	struct step_thread threads[STEP_THREADS]; /* the first is the main thread */
	unsigned thread_cnt;
};

/* A piece of the path. */
struct step_piece {
	uint64_t begin_ns, end_ns;
	uint32_t call; /* STEP_NONE: none */
	uint32_t exec;
	uint32_t late_pid; /* STEP_RANK: the process that was waited for */
	uint8_t kind;
};

struct step_path {
	struct step_piece *pieces; /* latest first */
	uint32_t cnt, cap;
};

/* An NVTX range, or a PyTorch operator whose name is that of a change. */
struct step_range {
	uint64_t start_ns, end_ns;
	uint32_t pid, tid;
	const char *name;
};

/* A process that a step waited for, as text: "rank 3". */
struct step_rank {
	uint32_t pid;
	char name[24];
};
#define STEP_RANKS	 64
#define STEP_RANGE_NAMES 256

struct steps {
	struct report *r;
	struct step_ring calls, execs, ranges;
	struct step_rank ranks[STEP_RANKS];
	unsigned rank_cnt;
	/* Names of ranges and operators, if a change has one. */
	const char *range_names[STEP_RANGE_NAMES];
	unsigned range_name_cnt;
	uint64_t capability; /* compute capability of the GPUs, the highest; 0: unknown */
	struct step_graph graph;
	struct step_path path;
	struct step_result res;
	struct step_examples lates;
};

/* Changes to replay; each text once. */
#define STEP_CANDIDATES	     (5 + 2 * STEP_PARTS + 4 * STEP_CANDIDATES_EACH)
#define STEP_CANDIDATES_EACH 3
struct step_change_list {
	struct step_change of[STEP_CANDIDATES];
	unsigned cnt;
};
struct step_sim;

/* Returns false if memory is short or the process has no calls. */
bool step_graph_make(struct steps *s, const struct iter_result *iter);
void step_graph_free(struct step_graph *g);
/* Walks from to_ns back to from_ns. */
bool step_path_make(struct steps *s, uint64_t from_ns, uint64_t to_ns);
struct step_window {
	uint64_t begin_ns, end_ns, number;
};
/* Sets s->res. */
void step_parts_make(struct steps *s, const struct iter_result *iter);
/* evidence.c: keeps it if it is among the longest. */
void step_example_add(struct step_examples *to, const struct step_example *x);
/* Sets the examples of s->res that are on the critical path. windows: the steps, in their order. */
void step_path_examples(struct steps *s, const struct step_window *windows, uint64_t cnt);
/* Sets s->lates, from this time on. Needs the calls. */
void step_late_make(struct steps *s, uint64_t from_ns);
/* topics.c: sets the topics of calls that depend on others. */
void step_topics_make(struct step_graph *g);
/* match.c: finds changes of --what-if that concern nothing. */
void step_match_changes(struct steps *s);
/* candidates.c: changes that may save time in the steps. The caller replays them. */
void step_propose(const struct step_sim *m, bool has_graphs, struct step_change_list *l);
/* The function of the call, its PyTorch operator, or a line or method in its Python stack has this
 * name. */
bool step_is_fn(const struct step_call *c, const char *name);
/* gaps.c: sets s->res.gaps and the intervals after them. windows: the steps, in their order. */
void step_gaps_make(struct steps *s, const struct step_window *windows, uint64_t cnt);
/* The innermost Python function of the program that made a call; NULL: not known. */
const struct stack_frame *step_python_frame(const struct step_graph *g, uint32_t call);
/* Replays the steps. */
void step_what_ifs_make(struct steps *s, const struct step_window *windows, uint64_t cnt,
			bool has_graphs);

/* Whether a call that is waited in was blocked, and until when: end of the execution, or of the
 * call without GPU times. 0: it was not. */
uint64_t step_blocked_until(const struct steps *s, uint32_t call);

/* When the execution was requested: at the end of its call, or at the start of a call that it began
 * in and that may wait for it. */
uint64_t step_requested_ns(const struct step_graph *g, const struct step_exec *x);

/* The thread's last interval that begins before ns; NULL: none. */
const struct step_seg *step_seg_before(const struct step_graph *g, unsigned thread, uint64_t ns);
/* The thread of a call, as an index of g->threads. */
unsigned step_thread_of(const struct step_graph *g, uint32_t call);

/* replay_make.c: windows: the steps, in their order. NULL: memory is short. */
struct step_sim *step_sim_new(const struct steps *s, const struct step_window *windows,
			      uint64_t cnt);
void step_sim_free(struct step_sim *m);
void step_replay(struct step_sim *m, const struct step_change *changes, unsigned cnt);
/* Returns when the replay has done all that the main thread and the GPU had done at this moment of
 * the trace, in ns since the first call. */
int64_t step_replayed(const struct step_sim *m, uint64_t ns);

extern const struct section_table step_table;
void step_print(const void *a, const struct term *term);
const char *step_kind_name(enum step_kind k);
const char *step_kind_label(enum step_kind k);

#endif /* REPORT_STEP_STEP_PRIV_H */
