/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Producers of records (ct_record.h). A source is one file with a struct source_ops and one row in
 * sources.def. It passes records on without interpreting them, counts losses, and accepts levels of
 * detail. The consumer does not depend on the source of a record.
 *
 * All sources form one stream, ordered by the time at which records were sent. A call's is its end,
 * so that an effect comes after its cause. For that, the clock is read before the sources are
 * read, and only records sent until then are taken. The source with the oldest record hands
 * out all that are older than those of the others: a single source is called once.
 */
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include "attach/levels.h"
#include "inject/inject.h"
#include "record/check.h"
#include "util/hash_table.h"

#include <stdbool.h>

struct source;
struct trace_end;
struct tracer;
HASH_TABLE_TYPE(source_drop_owner);

/* Gets each complete record; it is valid during the call only. */
typedef void (*source_fn)(void *ctx, const struct raw *raw);

enum source_id {
#define SOURCE(ID, name) SOURCE_##ID,
#include "sources.def"
#undef SOURCE
	SOURCE_CNT
};

/* Gets the counts of one process and function; source: its number. Members may be NULL. */
struct count_reader {
	void (*count)(void *ctx, unsigned source, const struct ct_count_key *key,
		      const struct ct_count *c);
	/* The number of its failed calls with one error code. */
	void (*error)(void *ctx, unsigned source, const struct ct_error_key *key, uint64_t cnt);
	void *ctx;
	/* For sources__take_all_counts(). */
	bool (*wanted)(void *ctx, uint32_t pid, ct_generation generation);
};

/* Where a source puts its counts while it reads them. */
struct source_reading {
	const struct count_reader *r;
	unsigned number; /* the source's */
};
void source__on_count(void *reading, const struct ct_count_key *key, const struct ct_count *c);
void source__on_error(void *reading, const struct ct_error_key *key, uint64_t cnt);
bool source__is_wanted(void *reading, uint32_t pid, ct_generation generation);

/* source.next_ns: no record is pending. */
#define SOURCE_NONE UINT64_MAX
/* open(): not needed in this trace, or not available here. */
#define SOURCE_UNUSED 1

/* NULL where a source lacks the function; look, take and open are required. */
struct source_ops {
	size_t size;	  /* of the source's own struct, which begins with struct source */
	const char *name; /* where records were lost, in messages */
	const char *why;  /* reason of a loss, in messages */
	/* 0, SOURCE_UNUSED, or -errno after reporting: then there is no trace. The sandbox starts
	 * afterwards: nothing can be opened later. */
	int (*open)(struct source *s, struct tracer *t);
	/* A descriptor that is readable when enough records are pending. A timer calls take()
	 * too. */
	int (*fd)(const struct source *s);
	/* Pending records are about to be taken: the descriptor becomes readable again when enough
	 * new ones have come. */
	void (*woken)(const struct source *s);
	/* Looks for records, and sets s->next_ns to the time of the oldest. False: a record is
	 * incomplete that may have begun before now; call again with the same now. That ends within
	 * milliseconds, whatever the producer does. */
	bool (*look)(struct source *s, uint64_t now);
	/* Delivers (source__give) at most max records sent by `until`, in that order. Sets
	 * s->next_ns to the time of the next. Returns their number. It may stop at an incomplete
	 * record. */
	size_t (*take)(struct source *s, size_t max, uint64_t until);
	/* Returns whether something may have been lost since the last call. Adding up the losses
	 * takes time. */
	bool (*was_full)(struct source *s);
	/* Invalid records, which were not delivered. */
	uint64_t (*bad_records)(const struct source *s);
	/* Adds totals and losses so far; *sum is all 0. */
	void (*totals)(struct source *s, struct ct_totals *sum);
	/* Fills what only this source can add to the end line. Or NULL. */
	void (*fill_end)(const struct source *s, struct trace_end *end);
	/* When all records have been taken: delivers the calls in flight, as CT_CALL_F_UNFINISHED.
	 */
	void (*unfinished)(struct source *s);
	/* Sets how much is recorded of a function's calls from now on. The initial level is in the
	 * tracer's fns (FNSET_COUNT, FNSET_NO_RETURN). 0 or -errno. */
	int (*set_level)(struct source *s, unsigned func_id, const struct fn_level *l);
	/* Sets whether calls are recorded at CT_PROC_METRICS too. 0 or -errno. */
	int (*set_always)(struct source *s, unsigned func_id, bool always);
	/* As levels__set_sampled(). NULL: it samples no calls. */
	int (*set_sampled)(struct source *s, unsigned func_id, uint32_t below);
	/* Sets how much is recorded of a process and of children that it creates from now on. The
	 * process may not have been seen yet. CT_PROC_DEFAULT: it has ended. 0 or -errno. */
	int (*set_proc)(struct source *s, pid_t pid, enum ct_proc_level level);
	/* Sets the level of all processes without their own; not CT_PROC_DEFAULT. */
	void (*set_default)(struct source *s, enum ct_proc_level level);
	/* Reads totals of calls that were not recorded; they only grow until they are taken. The
	 * key's generation is 0 if programs of a process are not distinguished. */
	void (*read_counts)(struct source *s, const struct count_reader *r);
	/* Reads the counts of one process whose program has ended, and frees them. generation 0:
	 * all programs with this process id. */
	void (*take_counts)(struct source *s, pid_t pid, ct_generation generation,
			    const struct count_reader *r);
	/* Returns whether take_counts() searches whole tables. NULL: never. */
	bool (*is_slow_to_take)(struct source *s, pid_t pid, ct_generation generation);
	/* Takes the counts of all programs that r->wanted accepts, with one search. Their rows stay
	 * charged until forget_counts(). */
	void (*take_all_counts)(struct source *s, const struct count_reader *r);
	void (*forget_counts)(struct source *s, pid_t pid, ct_generation generation);
	/* Takes the counts of programs that ended some time ago and whose exit records were
	 * lost. */
	void (*take_left_counts)(struct source *s, const struct count_reader *r);
	/* After unfinished(): delivers counted calls in flight, one at a time. */
	void (*unfinished_counts)(struct source *s, const struct count_reader *r);
	/* Runs in a child that is about to become the command; sets what this source needs to see
	 * it. */
	void (*prepare_child)(const struct source *s, const char *program);
	/* The number of processes still running that it follows by id; the first max of them go to
	 * pids. */
	unsigned (*live)(struct source *s, pid_t *pids, unsigned max);
	/* Lists the threads that it traces. */
	void (*each_thread)(struct source *s, thread_fn fn, void *ctx);
	/* Lists the processes that lost something since the last call. NULL: each_thread() reports
	 * them. */
	void (*drop_owners)(struct source *s, void (*fn)(void *ctx, uint32_t pid), void *ctx);
	/* Another source reports that the process's programs with a lower generation have ended:
	 * delivers their calls in flight. */
	void (*left)(struct source *s, pid_t pid, ct_generation generation, uint64_t now);
	/* Adds its calls that enclose that time in a thread, if any, with the source's number. */
	void (*enclosing)(struct source *s, pid_t pid, uint32_t tid, uint64_t at_ns,
			  struct inject_enclosing *out);
	/* Stops new calls; records already sent are still to be taken. */
	void (*stop)(struct source *s);
	/* After stop(): whether no record can come any more. NULL: none can. */
	bool (*is_over)(struct source *s);
	/* Frees what open() made; open() may have failed. */
	void (*close)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	unsigned number; /* unique; it is part of its calls' ids */
	uint64_t next_ns;
	uint64_t bad_cnt; /* records that raw_check() refused */
	uint64_t lost_reported;
	struct source_drop_owner_table drop_owners;
	source_fn fn;
	void *ctx;
};

/* All that are open. */
struct sources {
	struct source *of[RAW_PRODUCER_MAX];
	unsigned cnt;
};

/* Checks and delivers a source's next record. Records are checked only here. */
void source__give(struct source *s, const void *rec, size_t size);
/* -1: it has none. */
int source__fd(const struct source *s);
bool source__was_full(struct source *s);
/* All losses so far. */
uint64_t source__lost(struct source *s);
/* Losses since the last call. */
uint64_t source__newly_lost(struct source *s);
/*
 * Lists the processes that lost these cnt records, which are all since the last call. False: they
 * are unknown, and none was listed. A thread's own counter identifies it while it exists. Losses of
 * an ended thread, or of one without a counter, belong to no process.
 */
bool source__drop_owners(struct source *s, uint64_t cnt, void (*fn)(void *ctx, uint32_t pid),
			 void *ctx);

/* Opens a source with that number and adds it; fn gets its records. 0, also when it is unused, or
 * -errno. */
int sources__open(struct sources *ss, const struct source_ops *ops, unsigned number,
		  struct tracer *t, source_fn fn, void *ctx);
void sources__close(struct sources *ss);
/* Hands out at most max records of all sources, for at most 20 ms. Returns their number; less than
 * max: there are no more. */
size_t sources__drain(struct sources *ss, size_t max);
/* Adds up the totals of all; busiest is the largest. */
void sources__totals(const struct sources *ss, struct ct_totals *sum);
void sources__fill_end(const struct sources *ss, struct trace_end *end);
uint64_t sources__lost(const struct sources *ss);
uint64_t sources__bad_records(const struct sources *ss);
void sources__unfinished(struct sources *ss);
void sources__prepare_child(const struct sources *ss, const char *program);
/* As ops.live, of all sources. */
unsigned sources__live(struct sources *ss, pid_t *pids, unsigned max);
void sources__each_thread(struct sources *ss, thread_fn fn, void *ctx);
void sources__left(struct sources *ss, pid_t pid, ct_generation generation, uint64_t now);
/* Adds the enclosing calls of each source that has the function. */
void sources__enclosing(struct sources *ss, pid_t pid, uint32_t tid, uint64_t at_ns,
			struct inject_enclosing *out);
void sources__stop(struct sources *ss);
bool sources__are_over(struct sources *ss);
/* Set the level in all sources, and read counts from all. 0, or the first error. */
int sources__set_level(struct sources *ss, unsigned func_id, const struct fn_level *l);
int sources__set_always(struct sources *ss, unsigned func_id, bool always);
int sources__set_sampled(struct sources *ss, unsigned func_id, uint32_t below);
int sources__set_proc(struct sources *ss, pid_t pid, enum ct_proc_level level);
void sources__set_default(struct sources *ss, enum ct_proc_level level);
void sources__read_counts(struct sources *ss, const struct count_reader *r);
void sources__take_counts(struct sources *ss, pid_t pid, ct_generation generation,
			  const struct count_reader *r);
/* The same, except from sources that would search whole tables. False: there was one, and the
 * caller adds the program to its next sources__take_all_counts(). */
bool sources__take_counts_quickly(struct sources *ss, pid_t pid, ct_generation generation,
				  const struct count_reader *r);
void sources__take_all_counts(struct sources *ss, const struct count_reader *r);
void sources__forget_counts(struct sources *ss, pid_t pid, ct_generation generation);
void sources__take_left_counts(struct sources *ss, const struct count_reader *r);
void sources__unfinished_counts(struct sources *ss, const struct count_reader *r);

/* source_inject.c: late_server.h for the library's source. */
int source_inject__serve_late(const struct sources *ss, bool sandbox,
			      void (*fn)(void *ctx, pid_t pid, const char *why), void *ctx);
const char *source_inject__request_late(const struct sources *ss, pid_t pid, bool gently);
/* inject__set_gpu() and inject__gpu_state() for the library's source. */
const char *source_inject__set_gpu(const struct sources *ss, pid_t pid, enum ct_gpu_time mode);
bool source_inject__gpu_state(const struct sources *ss, pid_t pid, struct ct_shm_gpu *gpu);
/* late__start() for the library's source. */
struct late;
int source_inject__start_late(const struct sources *ss, struct late *l, const pid_t *pids,
			      unsigned cnt, bool sandbox);

#endif /* TRACE_SOURCE_H */
