/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits the time that the main thread works for the processes of a user. Counts of files, lines or
 * symbols do not: a user chooses how long one of them takes. Each piece of work stands between
 * begin and end, which charges the user the time that passed:
 *
 *   if (time_budget__begin(&w, reader__user(pid), WORK_FILES))
 *           return -EAGAIN;         refused and counted; worth a try later
 *   while (... && time_budget__has_time())
 *           ...
 *   time_budget__end(&w);
 *
 * After time_budget__start() (the daemon): a turn of the loop has 20 ms of what can be put off; one
 * user has 5 % of the time, two seconds at once; all users have 20 %, eight seconds at once. When
 * all have used that, only users who had less than half of the mean share get more. Root, whose
 * processes are those of all containers on many machines, may use all of the 20 %. Without it (a
 * trace, which works for one user) only has_time() limits, to 50 times as much.
 *
 * For the main thread only. Work within work is charged once, and is not refused.
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
	WORK_RINGS,	/* records that a process writes by itself */
	WORK_HELLOS,	/* processes that connect */
	WORK_CNT
};

struct work {
	uint64_t begin_ns;
	void *user; /* NULL: within other work */
};

/* From now on users have limits. */
void time_budget__start(void);
/* A turn of the loop begins. */
void time_budget__turn(void);

/* 0, or -EAGAIN: the turn's time or the user's is used up. Without 0 there is no end. uid -1: of
 * nobody that is known, who are one user. */
int time_budget__begin(struct work *w, uid_t uid, enum work_kind kind);
/* Whether the piece of work may go on: it has 20 ms of processor time, 300 ms on a busy machine.
 * One that has no time left stops and fails, or goes on in another turn. Outside of work: true. */
bool time_budget__has_time(void);
void time_budget__end(struct work *w);
/* Whether begin looks at the user at all: work within other work has no limit of its own. */
bool time_budget__needs_user(void);
/* Whether begin would succeed, of work that can be put off; nothing is counted. */
bool time_budget__may(uid_t uid);

struct time_budget_stats {
	uint64_t refused[WORK_CNT];
	double seconds[WORK_CNT]; /* what was worked */
};
void time_budget__stats(struct time_budget_stats *stats);
/* "files", "libraries", ... as metrics name it. */
const char *work_name(enum work_kind kind);

#endif /* UTIL_TIME_BUDGET_H */
