/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Loads the in-process library into programs that already run (--probe=inject -p). Nothing of them
 * is stopped or traced by ptrace: code is written behind the text of one of their libraries, and
 * the driver's dispatch pointers lead there until the next CUDA call (late_code.c). A process of
 * its own ("cudatrace-late") does this, because a hostile process could make it hang. It may be
 * killed at any time.
 */
#ifndef INJECT_LATE_H
#define INJECT_LATE_H

#include <stdbool.h>
#include <sys/types.h>

struct attach;
struct inject;

#define INJECT_LATE_MAX 64

struct late {
	pid_t helper; /* 0: none */
	int sock;
	unsigned left_cnt; /* processes that have not been entered yet */
};

/* Returns their effective user, or -EINVAL after reporting that they have several. */
int late__user(const pid_t *pids, unsigned cnt, uid_t *uid);
/* att: opened for filters. Checks these processes without changing anything. Returns 0, or -errno
 * after reporting why one of them cannot be entered. */
int late__start(struct late *l, struct inject *in, struct attach *att, const pid_t *pids,
		unsigned cnt, bool sandbox);
/* Enters them, from when on inject__look() is called. */
void late__go(struct late *l);
/* Reports processes that could not be entered: they are traced by uprobes. */
void late__look(struct late *l);
void late__end(struct late *l);
/* In a process of its own: checks one process and enters it. Returns NULL, or why not: a static
 * text. */
const char *late__enter(const struct inject *in, pid_t pid, unsigned filters);

#endif /* INJECT_LATE_H */
