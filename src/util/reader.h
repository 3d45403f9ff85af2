/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files that a traced process can make anybody wait for. /proc/PID/maps waits for the lock of its
 * memory, cmdline and environ for its pages too, and a path through its mounts leads to whatever
 * serves them: a FUSE server of its own may never answer, and who has asked it is beyond SIGKILL.
 * So nobody but a process of ours that may be lost ("cudatrace-read") looks at them: what hangs is
 * left behind after half a second, and another takes its place. A user whose processes do that
 * three times is not looked at for a minute, nor while three hang; of all users 64 may hang, then
 * nothing is read. The time that reading takes is charged to its user (util/time_budget.h).
 *
 * What comes back is safe to read: a copy, or a file on a file system that only the administrator
 * answers for.
 */
#ifndef UTIL_READER_H
#define UTIL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "time_budget.h"

/* Before anything else is opened, and before the sandbox. Without it everything below is done by
 * the caller itself. sandbox: with the few rights that reading takes. 0 or -errno. */
int reader__start(bool sandbox);
void reader__end(void);

/* These return a descriptor, or -errno; -EREMOTE: another user serves that file system; -ETIMEDOUT:
 * it hangs; -EBUSY: too much of this user's hangs, or no time is left
 * for the user. */

/* A copy of /proc/PID/NAME, of at most max bytes. */
int reader__copy(pid_t pid, const char *name, size_t max);
/* A regular file, for reading; pid: whose path it is (0: ours). Below /proc/PID/root/ links lead
 * nowhere else. flags: 0 or O_NOFOLLOW. */
int reader__open(pid_t pid, const char *path, int flags);
/* Parts of its memory, one after the other in buf: *got bytes each, the rest is 0. 0 or -errno. */
#define READER_RANGES_MAX 256
#define READER_MEMORY_MAX (1u << 20) /* bytes, of all of them */
struct reader_range {
	uint64_t addr;
	uint32_t len, got;
};
int reader__memory(pid_t pid, struct reader_range *ranges, unsigned cnt, uint8_t *buf);
/* Up to size bytes of such a file or copy, which is closed; how many, or -errno. */
ssize_t reader__take(int fd, void *buf, size_t size);

/* Who started the process, whatever it runs as; -1: it is gone, or pid is 0. Done by the caller. */
uid_t reader__user(pid_t pid);

/* time_budget__begin() for its user. */
int reader__begin(struct work *w, pid_t pid, enum work_kind kind);

struct reader_stats {
	uint64_t lost;	  /* reads that hung */
	uint64_t refused; /* files of other users' file systems, and what was not tried any more */
};
void reader__stats(struct reader_stats *stats);

#endif /* UTIL_READER_H */
