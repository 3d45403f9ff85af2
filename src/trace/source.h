/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Producers of records (ct_record.h). A source is one file with a struct source_ops and one row in
 * sources.def. It adds no meaning to what it gives, counts what it loses, and can be told how much
 * is wanted; what takes its records does not know which source they are of.
 *
 * All of them are one stream, in the order of the times at which records were sent: a call's is its
 * end, so that what was caused by something comes behind it. For that the clock is read before the
 * sources are looked at, and only what was sent until then is taken. The source whose record is the
 * oldest hands out all that are older than those of the others: one by itself is asked once.
 */
#ifndef TRACE_SOURCE_H
#define TRACE_SOURCE_H

#include "attach/levels.h"
#include "inject/inject.h"
#include "record/check.h"

#include <stdbool.h>

struct source;
struct source_drop_owner;
struct trace_end;
struct tracer;

/* Gets each record that is whole; it is valid during the call only. */
typedef void (*source_fn)(void *ctx, const struct raw *raw);

enum source_id {
#define SOURCE(ID, name) SOURCE_##ID,
#include "sources.def"
#undef SOURCE
	SOURCE_CNT
};

/* Gets what was counted of one process and function; source: its number. A member that is NULL is
 * not wanted. */
struct count_reader {
	void (*count)(void *ctx, unsigned source, const struct ct_count_key *key,
		      const struct ct_count *c);
	/* How many of them failed with one code. */
	void (*error)(void *ctx, unsigned source, const struct ct_error_key *key, uint64_t cnt);
	void *ctx;
};

/* What a source hands its counts to while it reads them. */
struct source_reading {
	const struct count_reader *r;
	unsigned number; /* the source's */
};
void source__on_count(void *reading, const struct ct_count_key *key, const struct ct_count *c);
void source__on_error(void *reading, const struct ct_error_key *key, uint64_t cnt);

/* source.next_ns: no record waits. */
#define SOURCE_NONE UINT64_MAX
/* open(): it is not needed in this trace, or not to be had here. */
#define SOURCE_UNUSED 1

/* NULL for what a source does not have: look, take and open it has. */
struct source_ops {
	size_t size;	  /* of the source's own struct, which begins with struct source */
	const char *name; /* where something was lost, and */
	const char *why;  /* what is said of that */
	/* 0, SOURCE_UNUSED, or -errno after reporting: then there is no trace. The sandbox comes
	 * after it: nothing can be opened later. */
	int (*open)(struct source *s, struct tracer *t);
	/* A descriptor that is readable when enough is waiting. take() is called by a timer too. */
	int (*fd)(const struct source *s);
	/* What waits is about to be taken: it is readable again when enough has come since. */
	void (*woken)(const struct source *s);
	/* Looks for records, and says in s->next_ns when the oldest was sent. False: one is being
	 * made that may have been begun before now; to be asked again with the same now. Whoever
	 * makes records, that ends within milliseconds. */
	bool (*look)(struct source *s, uint64_t now);
	/* Gives (source__give) what was sent until until, in that order, max at most; says in
	 * s->next_ns when the next was sent. Returns how many. It may stop at one that is not
	 * whole yet. */
	size_t (*take)(struct source *s, size_t max, uint64_t until);
	/* May something have been lost since this was last asked? Adding up what was takes time. */
	bool (*was_full)(struct source *s);
	/* Records that it did not even give, for they made no sense. */
	uint64_t (*bad_records)(const struct source *s);
	/* What it saw and lost so far; *sum is all 0. */
	void (*totals)(struct source *s, struct ct_totals *sum);
	/* What only it knows of the end line. Or NULL. */
	void (*fill_end)(const struct source *s, struct trace_end *end);
	/* Nothing comes any more: gives the calls in flight, as CT_CALL_F_UNFINISHED. */
	void (*unfinished)(struct source *s);
	/* How much is kept of a function's calls from now on; what it is at first the tracer's fns
	 * say (FNSET_COUNT, FNSET_NO_RETURN). 0 or -errno. */
	int (*set_level)(struct source *s, unsigned func_id, const struct fn_level *l);
	/* Whether they are records at CT_PROC_METRICS too. 0 or -errno. */
	int (*set_always)(struct source *s, unsigned func_id, bool always);
	/* How much is kept of a process, which may be one that nothing was seen of yet, and of the
	 * children that it makes from now on. CT_PROC_DEFAULT: it is gone. 0 or -errno. */
	int (*set_proc)(struct source *s, pid_t pid, enum ct_proc_level level);
	/* And of all that have no level of their own; not CT_PROC_DEFAULT. */
	void (*set_default)(struct source *s, enum ct_proc_level level);
	/* Calls that were no records, in all: they only grow, until they are taken. The key's life
	 * is 0 where the programs of a process are not told apart. */
	void (*read_counts)(struct source *s, const struct count_reader *r);
	/* The same of one process, whose program has ended, and makes room for others. life 0: of
	 * all that had this process id. */
	void (*take_counts)(struct source *s, pid_t pid, ct_generation generation,
			    const struct count_reader *r);
	/* The same of programs that ended some time ago and whose counts nobody has taken, for the
	 * records of their ends were lost. */
	void (*take_left_counts)(struct source *s, const struct count_reader *r);
	/* After unfinished(): counted calls that are in flight, one at a time. */
	void (*unfinished_counts)(struct source *s, const struct count_reader *r);
	/* In a child that is about to become the command: what it needs to be seen by this source.
	 */
	void (*prepare_child)(const struct source *s, const char *program);
	/* How many processes that it follows by their ids still run; the first max of them are in
	 * pids. */
	unsigned (*live)(struct source *s, pid_t *pids, unsigned max);
	/* Gives the threads that it sees. */
	void (*each_thread)(struct source *s, thread_fn fn, void *ctx);
	/* Gives the processes that have lost something since this was last asked. NULL: what
	 * each_thread() gives says who they are. */
	void (*drop_owners)(struct source *s, void (*fn)(void *ctx, uint32_t pid), void *ctx);
	/* Another source says that what a process ran before that life has ended: gives calls in
	 * flight. */
	void (*left)(struct source *s, pid_t pid, ct_generation generation, uint64_t now);
	/* Its calls in which a thread was at that time, or adds none; with the source's number. */
	void (*enclosing)(struct source *s, pid_t pid, uint32_t tid, uint64_t at_ns,
			  struct inject_enclosing *out);
	/* No calls from here on; what was sent is still to be taken. */
	void (*stop)(struct source *s);
	/* After it: does nothing come any more? Or NULL: nothing does. */
	bool (*is_over)(struct source *s);
	/* Frees what open made, which may have failed. */
	void (*close)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	unsigned number; /* of no other; it is part of its calls' ids */
	uint64_t next_ns;
	uint64_t bad_cnt; /* records that raw_check() refused */
	uint64_t lost_told;
	struct source_drop_owner *drop_owners;
	source_fn fn;
	void *ctx;
};

/* All that are open. */
struct sources {
	struct source *of[RAW_PRODUCER_MAX];
	unsigned cnt;
};

/* A source's next record, which is checked here and nowhere else. */
void source__give(struct source *s, const void *rec, size_t size);
/* -1: it has none. */
int source__fd(const struct source *s);
bool source__was_full(struct source *s);
/* What was lost, in all. */
uint64_t source__lost(struct source *s);
/* Since this was last asked. */
uint64_t source__newly_lost(struct source *s);
/*
 * Gives the processes that have lost these cnt, which are all since this was last asked. False: who
 * has is not known, and none was given. A thread's own count says whose it is while the thread is
 * there; what a thread had lost that has ended, or for which there was no room, is nobody's.
 */
bool source__drop_owners(struct source *s, uint64_t cnt, void (*fn)(void *ctx, uint32_t pid),
			 void *ctx);

/* Opens a source as that number and adds it; fn gets its records. 0, also when it is unused, or
 * -errno. */
int sources__open(struct sources *ss, const struct source_ops *ops, unsigned number,
		  struct tracer *t, source_fn fn, void *ctx);
void sources__close(struct sources *ss);
/* Hands out at most max records of all sources, for 20 ms at most. Returns how many; less than max:
 * there are no more. */
size_t sources__drain(struct sources *ss, size_t max);
/* Adds up what all have counted; busiest is the largest. */
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
/* Of one that can tell. */
void sources__enclosing(struct sources *ss, pid_t pid, uint32_t tid, uint64_t at_ns,
			struct inject_enclosing *out);
void sources__stop(struct sources *ss);
bool sources__are_over(struct sources *ss);
/* Levels are told to all, and counts asked of all. 0, or what the first that could not said. */
int sources__set_level(struct sources *ss, unsigned func_id, const struct fn_level *l);
int sources__set_always(struct sources *ss, unsigned func_id, bool always);
int sources__set_proc(struct sources *ss, pid_t pid, enum ct_proc_level level);
void sources__set_default(struct sources *ss, enum ct_proc_level level);
void sources__read_counts(struct sources *ss, const struct count_reader *r);
void sources__take_counts(struct sources *ss, pid_t pid, ct_generation generation,
			  const struct count_reader *r);
void sources__take_left_counts(struct sources *ss, const struct count_reader *r);
void sources__unfinished_counts(struct sources *ss, const struct count_reader *r);

#endif /* TRACE_SOURCE_H */
