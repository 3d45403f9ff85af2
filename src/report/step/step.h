/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The critical path of an iteration; for other analyses, valid after the finish. */
#ifndef REPORT_STEP_STEP_H
#define REPORT_STEP_STEP_H

#include "evidence.h"
#include "replay.h"
#include "report/report.h"

enum step_kind {
#define STEP_KIND(ID, name, label) STEP_##ID,
#include "kinds.def"
	STEP_KIND_CNT
};

#define STEP_PARTS 12

/* A part of a step: the pieces of its critical path of one kind and one name. */
struct step_part {
	enum step_kind kind;
	const char *name;	 /* kernel or function; NULL: none */
	const struct api_fn *fn; /* function of its longest piece; NULL: none */
	const char *operator;	 /* PyTorch operator of its longest piece; NULL: none known */
	const struct stack_frame *frame; /* innermost Python frame of that piece; NULL: not known */
	uint64_t call_id;		 /* call of its longest piece; 0: none */
	uint64_t ns;
	uint64_t cnt; /* pieces */
};

struct step {
	uint64_t number; /* of the iteration, from 0 */
	uint64_t begin_ns, end_ns;
	uint64_t busy_ns;    /* a GPU executed work of the process; 0 without GPU times */
	uint64_t blocked_ns; /* the host waited for work that was still running */
	struct step_part
		parts[STEP_PARTS]; /* longest first, STEP_REST last; they add up to the step */
	unsigned part_cnt;
};

enum step_which { STEP_MEDIAN, STEP_P95, STEP_SLOWEST, STEP_FIRST, STEP_WHICH_CNT };

/* Causes of a long time between calls: the program loads data, another thread makes calls, or the
 * thread waits for Python's lock. */
enum step_gap_kind { STEP_GAP_INPUT = 1, STEP_GAP_THREAD, STEP_GAP_LOCK, STEP_GAP_CNT };

/* Long times between calls on the critical path, all before calls at one place, except
 * STEP_GAP_LOCK. */
struct step_gap {
	uint64_t cnt, ns; /* 0: there are none */
	/* STEP_GAP_LOCK: places of those that are as long as waits; and the longer ones. */
	uint64_t place_cnt, longer_cnt, longer_ns;
	uint64_t step_cnt, typical_ns;
	uint64_t saved_ns; /* by a replay of the steps without them */
	/* A typical one of them: its begin, the calls before and after it, and the Python frames of
	 * the two; NULL: not known. */
	uint64_t begin_ns, before_id, after_id;
	const struct api_fn *fn; /* of the call after it */
	const struct stack_frame *before, *after;
	const struct stack_frame *loader; /* a frame of a library that loads data */
	const struct stack_frame *caller; /* what called the library */
	uint32_t tid; /* another thread, its calls meanwhile, and where it made them; 0: none */
	uint64_t call_cnt;
	const struct stack_frame *other;
};

/* What a finding is about, and how the steps are replayed without it. Calls that take no time and
 * do not wait: until STEP_TOPIC_WAIT. Calls of the next two are joined with their neighbours. */
enum step_topic {
	STEP_TOPIC_ALLOC,
	STEP_TOPIC_MODULE,
	STEP_TOPIC_GRAPH,      /* built or updated */
	STEP_TOPIC_QUERY,      /* polling excepted */
	STEP_TOPIC_WAIT,       /* after little work: it returns at once */
	STEP_TOPIC_COPY,       /* small */
	STEP_TOPIC_COLLECTIVE, /* the launch of a small collective */
	STEP_TOPIC_PINNED,     /* copies of pageable memory use pinned memory */
	STEP_TOPIC_OVERLAP, /* copies to a GPU run beside other work; on top of STEP_TOPIC_PINNED */
	STEP_TOPIC_COMM,    /* no other work waits for NCCL's kernels */
	STEP_TOPIC_LATE,    /* nobody waits for the process that is late most */
	/* No host time from a wait with an idle GPU to the next work, on top of the others that are
	 * about the host */
	STEP_TOPIC_IDLE,
	/* No long time between calls, on top of STEP_TOPIC_IDLE, too, and of struct step_gap */
	STEP_TOPIC_BETWEEN,
	STEP_TOPIC_CNT
};

struct step_topic_row {
	uint64_t cnt; /* calls, or other things in the trace that it concerns */
	uint64_t saved_ns;
	uint64_t longest_ns;	/* of these calls in the steps; 0: there is none */
	struct step_part place; /* of that call */
	struct step_examples examples;
};

/* The predicted effect of a change, by replay.h. */
struct step_what_if {
	struct step_change change;
	bool is_asked;		  /* --what-if */
	bool is_unmatched;	  /* the trace has nothing that it would change */
	uint64_t step_ns;	  /* the median step with it */
	uint64_t low_ns, high_ns; /* the quartiles: half of the steps are between them */
	uint64_t total_ns;	  /* all steps with it */
	bool is_usual;		  /* worthwhile without the quarter of the steps that gains most */
};
#define STEP_WHAT_IFS (CHANGES_MAX + 4)

struct step_result {
	struct step steps[STEP_WHICH_CNT]; /* part_cnt 0: there is none */
	/* Replays of the steps after the warm-up that were kept: unchanged, without host time, and
	 * without GPU time. */
	struct step_what_if unchanged, no_host, no_gpu;
	struct step_what_if what_ifs[STEP_WHAT_IFS]; /* requested ones, then those that save most */
	unsigned what_if_cnt;
	char error[512]; /* of the first requested change that is_unmatched */
	struct step_gap gaps[STEP_GAP_CNT];
	struct step_topic_row topics[STEP_TOPIC_CNT];
	/* On the critical path: launches that the GPU waited for, and calls that build plans. */
	struct step_examples launches, plans;
	uint32_t late_pid;	 /* of STEP_TOPIC_LATE; 0: none */
	uint64_t plans_saved_ns; /* if libraries built no plans */
	/* By a CUDA graph, or with graphs a host that costs nothing, on top of the others that are
	 * about the host. */
	uint64_t host_saved_ns;
	uint64_t total_ns; /* of these steps, in the trace */
	uint64_t step_cnt; /* steps after the warm-up whose events were kept */
	bool has_gpu_times;
	bool is_joined; /* the calls of most executions are known; without it replays are wrong */
	uint32_t pid, tid;
};
/* Calls with which this process was late to collectives, or NULL. Needs no iterations. */
const struct step_examples *step_late_examples(const struct report *r, uint32_t pid);
/* NULL if there is none. */
const struct step_result *step_result(const struct report *r);
/* Writes why a change of --what-if cannot be replayed. Returns false if all can. */
bool step_changes_error(const struct report *r, char *buf, size_t size);
/* Prints the parts of the median step, without replays. */
void step_print_parts(const struct report *r, const struct term *term);
/* Writes where a part of a step is: "aten::addmm, model.py:39 forward"; nothing if not known. */
void step_place(const struct step_part *p, char *buf, size_t size);
/* The innermost Python function of the program in a stack; NULL: not known. */
const struct stack_frame *step_frame_in(const struct stack *stack);
/* Writes "model.py:39 forward". */
void step_frame(const struct stack_frame *f, char *buf, size_t size);

#endif /* REPORT_STEP_STEP_H */
