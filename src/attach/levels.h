/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much is kept of each function's calls and of each process (include/ct_count.h says what the
 * levels are), and the counts of calls that were no records. All of it while calls are made.
 */
#ifndef ATTACH_LEVELS_H
#define ATTACH_LEVELS_H

#include "attach.h"

struct fn_level {
	enum ct_level level;
	uint32_t one_of; /* CT_LEVEL_SAMPLE: one of so many calls is a record */
	bool entry_only; /* only entries are seen: cheaper, no durations, no results */
};

/* 0, or -errno: -ENOENT when no function has this id. The change is seen by the next call. */
int levels__set_fn(struct attach *a, unsigned func_id, const struct fn_level *l);

/* Whether its calls are records at CT_PROC_METRICS too. */
int levels__set_always(struct attach *a, unsigned func_id, bool always);

/* A process and the children that it makes from now on. It may be one that is not traced yet; when
 * only some processes are traced this adds it to them. */
int levels__set_proc(struct attach *a, pid_t pid, enum ct_proc_level level);
/* The process is gone, and nobody has told the kernel side. */
void levels__forget_proc(struct attach *a, pid_t pid);
/* Of all processes that have no level of their own; not CT_PROC_DEFAULT. */
void levels__set_default(struct attach *a, enum ct_proc_level level);

/* Calls that returned. */
static inline uint64_t ct_count_calls(const struct ct_count *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CT_HIST_CNT; i++)
		sum += c->hist[i];
	return sum;
}

/* Gets one process's counts of one function. They only grow, until levels__take(). */
typedef void (*levels_fn)(void *ctx, const struct ct_count_key *key, const struct ct_count *c);
void levels__read(struct attach *a, levels_fn fn, void *ctx);
/* The same of one process, whose program has ended, and makes room for others. life 0: of all that
 * had this process id. */
void levels__take(struct attach *a, pid_t pid, ct_generation generation, levels_fn fn, void *ctx);
/* Gets how many of them failed with one code. Those of a process that has ended: take. */
typedef void (*levels_error_fn)(void *ctx, const struct ct_error_key *key, uint64_t cnt);
void levels__read_errors(struct attach *a, levels_error_fn fn, void *ctx);
void levels__take_errors(struct attach *a, pid_t pid, ct_generation generation, levels_error_fn fn,
			 void *ctx);
/* A program whose counts and errors were taken: it holds no room any more. life 0: as above. */
void levels__forget_rows(struct attach *a, pid_t pid, ct_generation generation);
/* A thread as its producer sees it in this moment. */
struct seen_thread {
	uint32_t pid, tid;
	uint64_t spent_ns;	       /* on being traced, so far */
	uint64_t lost;		       /* of what it did, so far: enum ct_drop, all of them */
	const struct ct_frame *frames; /* the calls that it is in, the outermost first */
	unsigned depth;
};
typedef void (*thread_fn)(void *ctx, const struct seen_thread *t);
static inline uint64_t drops_sum(const __u64 drops[CT_DROP_CNT])
{
	uint64_t sum = 0;

	for (int i = 0; i < CT_DROP_CNT; i++)
		sum += drops[i];
	return sum;
}
/* After attach__detach(): counted calls that have not returned, one at a time. */
void levels__unfinished(struct attach *a, levels_fn fn, void *ctx);

#endif /* ATTACH_LEVELS_H */
