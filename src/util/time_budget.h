/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the time that the main thread spends on the processes of a user. Limits on files, lines
 * or symbols would not: a user chooses how long one of them takes. Each piece of work is enclosed
 * by begin and end, which charges the elapsed time to the user:
 *
 *   if (time_budget__begin(&w, reader__user(pid), WORK_FILES))
 *           return -EAGAIN;         refused and counted; may be retried later
 *   while (... && time_budget__has_time())
 *           ...
 *   time_budget__end(&w);
 *
 * After time_budget__start() (the daemon): one turn of the loop does at most 20 ms of deferrable
 * work, and 200 ms of other work for one user. One user has 5 % of the time, two seconds at once;
 * all users have 20 %, eight seconds at once. When that is used up, only users below half of the
 * mean share get more. Root, who owns the processes of all containers on many machines, may use all
 * of the 20 %. Without it (a trace, which works for one user) only has_time() limits, to 50 times
 * as much.
 *
 * For the main thread only. Nested work is charged once, and is never refused.
 */
#ifndef UTIL_TIME_BUDGET_H
#define UTIL_TIME_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum work_kind {
	WORK_FILES,	/* files, mappings and memory of a process, by util/reader.h */
	WORK_LIBRARIES, /* library files that a process maps */
	WORK_SYMBOLS,	/* names and call frames of files, for stacks */
	WORK_TASKS,	/* a process's threads */
	WORK_RINGS,	/* records that a process writes itself */
	WORK_HELLOS,	/* processes that connect */
	WORK_CNT
};

struct work {
	uint64_t begin_ns;
	void *user; /* NULL: nested in other work */
};

/* Enables the limits of users. */
void time_budget__start(void);
/* Begins a turn of the loop. */
void time_budget__turn(void);

/* Returns 0, or -EAGAIN when the time of the turn or the user is used up. Call end only after 0.
 * uid -1: unknown users, who share one budget. */
int time_budget__begin(struct work *w, uid_t uid, enum work_kind kind);
/* Returns whether the piece of work may continue: it has 20 ms of processor time, or 300 ms of wall
 * time. Work without time left must fail, or continue in another turn. Outside of work: true. */
bool time_budget__has_time(void);
void time_budget__end(struct work *w);
/* Charges this time of the current work to no user, because the machine was busy. */
void time_budget__excuse(uint64_t ns);
/* Returns whether begin uses the user at all: nested work has no limit of its own. */
bool time_budget__needs_user(void);
/* Returns whether begin would succeed for deferrable work; counts nothing. */
bool time_budget__may(uid_t uid);
/* The same, for work of which one user gets half of a turn, so that others get some in each. */
bool time_budget__may_half(uid_t uid);
/* Counts work that was given up after time_budget__may() or may_half() had refused it. */
void time_budget__refuse(enum work_kind kind);

struct time_budget_stats {
	uint64_t refused[WORK_CNT];
	double seconds[WORK_CNT]; /* time spent */
};
void time_budget__stats(struct time_budget_stats *stats);
/* "files", "libraries", ... as metrics name it. */
const char *work_name(enum work_kind kind);

#endif /* UTIL_TIME_BUDGET_H */
