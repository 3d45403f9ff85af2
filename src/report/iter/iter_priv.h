/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the analysis of iterations.
 *
 * iter.c cuts each thread's calls into segments and groups similar ones. find.c and period.c make
 * iterations of them after the last event, result.c measures them, print.c shows them.
 */
#ifndef REPORT_ITER_ITER_PRIV_H
#define REPORT_ITER_ITER_PRIV_H

#include "report/collect.h"
#include "iter.h"

#define IT_DIMS	      128	/* kernels that a sketch always distinguishes */
#define IT_STEPS_MAX  (1 << 18) /* launches of one segment in order */
#define IT_PATTERNS   64	/* kinds of segments, per thread */
#define IT_PERIOD_MAX 16	/* segments in one iteration */
#define IT_LIST_MAX   10000	/* iterations in the JSON form */
#define IT_PROCS_MAX  64
#define IT_NONE	      UINT32_MAX

struct it_sums {
	uint32_t calls;
	uint64_t htod, dtoh, launch_ns, sync_ns, call_ns;
};

/* Calls of a thread up to and including a wait for the GPU after launches. */
struct it_seg {
	uint64_t begin_ns; /* first call after the last wait without launches before it */
	uint64_t end_ns;
	struct it_sums all;    /* since the segment before */
	struct it_sums before; /* of these, before begin_ns */
	uint64_t work;	       /* kernels, with those of its graphs */
	uint32_t kernels, graphs;
	uint32_t colls;	  /* collectives of the process up to its end */
	uint32_t pattern; /* IT_NONE: no kept pattern is similar */
	bool loads;	  /* modules, since begin_ns */
};

/* How often each kernel was launched, kernels modulo IT_DIMS. */
struct it_sketch {
	uint32_t n[IT_DIMS];
	uint32_t total;
};

struct it_pattern {
	struct it_sketch sketch;
	uint32_t seg_cnt;
	uint32_t *kernels; /* the launches of one segment, in order */
	unsigned kernel_cnt;
};

struct it_step {
	uint64_t start_ns;
	uint32_t dur_ns, kernel;
};

struct it_thread {
	uint32_t pid, tid;
	bool open, is_marked;
	struct it_seg cur;
	struct it_sketch sketch;
	struct it_step *steps; /* launches of the segment */
	unsigned step_cnt, step_cap;
	/* of the segment with the most launches: it may contain a loop that does not wait */
	struct it_step *longest;
	unsigned longest_cnt, longest_cap;
	struct it_seg *segs;
	unsigned seg_cnt, seg_cap;
	struct it_pattern *patterns;
	unsigned pattern_cnt, pattern_cap, last_pattern;
	uint64_t work; /* of all segments */
};

struct it_iter {
	uint64_t begin_ns, end_ns;
	struct it_sums sums;
	uint32_t kernels, graphs, round;
	bool loads, warmup;
};

struct kernel_row {
	uint32_t kernel, cnt;
};

struct iter {
	struct report *r;
	struct keys thread_keys, kernel_keys;
	struct keys coll_keys; /* processes with collectives */
	uint32_t *colls;       /* their numbers */
	unsigned coll_cap;
	struct it_thread *threads;
	unsigned thread_cap;
	struct memlimit_share seg_rows;
	uint64_t lost_segs; /* beyond MEMLIMIT_SEGMENTS_MAX */
	const struct it_thread
		*longest; /* thread with the most launches in one segment; NULL: none */
	/* results */
	struct it_iter *list;
	unsigned cnt, cap, round_cnt;
	uint32_t *sample; /* kernels of a typical one, owned by a pattern or by longest_sample */
	unsigned sample_cnt;
	uint32_t *longest_sample;
	struct kernel_row *rows; /* kernels of the sample, most launches first */
	unsigned row_cnt;
	struct iter_result res;
	char why[512];
	uint32_t only; /* search only this process; 0: all */
	/* of each process, if several launch */
	struct iter_result each[IT_PROCS_MAX];
	unsigned each_cnt;
};

/* Both add to the list and explain it in why; they return the launches in it. */
uint64_t iter_find_segments(struct iter *it);
uint64_t iter_find_periods(struct iter *it, uint64_t better_than);
struct it_iter *iter_add(struct iter *it);
/* Adds k segments from i on as one iteration; returns the launches in it. In a round it begins at
 * the previous one's end. */
uint64_t iter_add_segments(struct iter *it, const struct it_thread *t, unsigned i, unsigned k,
			   bool new_round);
/* Sets the result from the list, which has found launches. */
void iter_measure(struct iter *it, uint64_t found);
/* Finds iterations in the calls of one process alone. Free with iter_alone_free(). */
void iter_find_alone(const struct iter *all, uint32_t pid, struct iter *alone);
void iter_alone_free(struct iter *alone);
/* share.c: ranks of a job have the same iterations. */
void iter_share(struct iter *it);
uint32_t iter_colls_of(struct iter *it, uint32_t pid);
const char *iter_kernel_name(const struct iter *it, uint32_t kernel);
/* The value of one iteration. */
uint64_t iter_value(const struct it_iter *i, enum iter_stat stat);

extern const struct section_table iter_table;
/* result.c: finds iterations in the segments, and measures them. */
void iter_find(struct iter *it);
/* Makes the rows of the sample. */
void iter_count_kernels(struct iter *it);
void iter_print(const void *a, const struct term *term);

/* Returns whether thread t has more than the current maximum. If threads are equal, the lowest
 * wins, because their order in the trace is chance. */
static inline bool iter_has_more(const struct it_thread *t, uint64_t n,
				 const struct it_thread *most, uint64_t most_n)
{
	return n > most_n || (n && n == most_n && most &&
			      thread_key(t->pid, t->tid) < thread_key(most->pid, most->tid));
}

#endif /* REPORT_ITER_ITER_PRIV_H */
