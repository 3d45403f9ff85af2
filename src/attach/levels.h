/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Levels of detail of functions and processes (defined in include/ct_count.h), and the counts of
 * calls without records. All of it works while calls are made.
 */
#ifndef ATTACH_LEVELS_H
#define ATTACH_LEVELS_H

#include "attach.h"

struct fn_level {
	enum ct_level level;
	uint32_t one_of; /* CT_LEVEL_SAMPLE: one in this many calls is a record */
	bool entry_only; /* probe only entries: cheaper, but no durations or results */
};

/* Returns 0 or -errno: -ENOENT if no function has this id. Takes effect with the next call. */
int levels__set_fn(struct attach *a, unsigned func_id, const struct fn_level *l);

/* Sets whether its calls are records at CT_PROC_METRICS, too. */
int levels__set_always(struct attach *a, unsigned func_id, bool always);

/* With attach_opts.profile: the share of its calls that are recorded with their stack, as a
 * fraction of 2^32, of processes at each level but off. */
int levels__set_sampled(struct attach *a, unsigned func_id, uint32_t below);

/* Sets the level of a process and of its future children. The process need not be traced yet; if
 * only some processes are traced, this adds it to them. */
int levels__set_proc(struct attach *a, pid_t pid, enum ct_proc_level level);
/* The process has ended without the kernel side noticing. */
void levels__forget_proc(struct attach *a, pid_t pid);
/* Sets the level of all processes without one of their own; not CT_PROC_DEFAULT. */
void levels__set_default(struct attach *a, enum ct_proc_level level);

/* Returns the calls that returned. */
static inline uint64_t ct_count_calls(const struct ct_count *c)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CT_HIST_CNT; i++)
		sum += c->hist[i];
	return sum;
}

/* Receives one process's counts of one function. They only grow, until levels__take(). */
typedef void (*levels_fn)(void *ctx, const struct ct_count_key *key, const struct ct_count *c);
void levels__read(struct attach *a, levels_fn fn, void *ctx);
/* Reads the counts of one process whose program has ended, and deletes the rows. generation 0: of
 * all programs with this process id. */
void levels__take(struct attach *a, pid_t pid, ct_generation generation, levels_fn fn, void *ctx);
/* Receives the number of failures with one code. For an ended process, use take. */
typedef void (*levels_error_fn)(void *ctx, const struct ct_error_key *key, uint64_t cnt);
void levels__read_errors(struct attach *a, levels_error_fn fn, void *ctx);
void levels__take_errors(struct attach *a, pid_t pid, ct_generation generation, levels_error_fn fn,
			 void *ctx);
/* Returns whether taking the counts of this program searches whole tables. */
bool levels__is_slow_to_take(struct attach *a, pid_t pid, ct_generation generation);
/* Takes the counts and errors of all programs that wanted accepts, with one search. */
typedef bool (*levels_wanted_fn)(void *ctx, uint32_t pid, ct_generation generation);
void levels__take_all(struct attach *a, levels_wanted_fn wanted, levels_fn fn,
		      levels_error_fn error_fn, void *ctx);
/* Releases the rows of a program whose counts and errors were taken. generation 0: as above. */
void levels__forget_rows(struct attach *a, pid_t pid, ct_generation generation);
/* Present state of a thread, from its producer. */
struct seen_thread {
	uint32_t pid, tid;
	uint64_t spent_ns;	       /* overhead so far */
	uint64_t lost;		       /* dropped so far, over all of enum ct_drop */
	const struct ct_frame *frames; /* calls in flight, the outermost first */
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
/* After attach__detach(): calls fn for each counted call that has not returned. */
void levels__unfinished(struct attach *a, levels_fn fn, void *ctx);

#endif /* ATTACH_LEVELS_H */
