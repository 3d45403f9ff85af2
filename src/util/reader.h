/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads files that a traced process can make block. /proc/PID/maps waits for the lock of its
 * memory, cmdline and environ also for its pages. A path through its mounts may lead to a FUSE
 * server of its own that never answers, and a process blocked there cannot be killed. So only a
 * disposable process of ours ("cudatrace-read") reads them. One that hangs is abandoned after half
 * a second (util/await.h) and replaced. A user whose processes cause that three times is skipped
 * for a minute, and while three hang; when 64 hang for all users, nothing is read. The time of
 * reading is charged to the user (util/time_budget.h).
 *
 * Results are safe to read: a copy, or a file on a file system that only the administrator
 * controls.
 */
#ifndef UTIL_READER_H
#define UTIL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "time_budget.h"

/* Starts the process: before anything else is opened, and before the sandbox. Without it the caller
 * does everything below itself. sandbox: with only the privileges for reading. Returns 0 or
 * -errno. */
int reader__start(bool sandbox);
/* Returns whether cudatrace-read was ended, and a file could not be read because of that. */
bool reader__is_gone(void);
void reader__end(void);

/* These return a descriptor, or -errno. -EREMOTE: another user serves that file system; -ETIMEDOUT:
 * it hangs; -EBUSY: too many reads for this user hang, or the user's time is used up. */

/* A copy of at most max bytes of /proc/PID/NAME. */
int reader__copy(pid_t pid, const char *name, size_t max);
/* Reads where the link /proc/PID/NAME leads (exe, fd/N, ns/NAME): adds a NUL, and returns the
 * length. Linux 6.18 waits for the process's execve(). */
ssize_t reader__link(pid_t pid, const char *name, char *buf, size_t size);
/* Opens a regular file for reading. pid: the process whose path it is (0: ours). Links below
 * /proc/PID/root/ stay inside it. flags: 0 or O_NOFOLLOW. */
int reader__open(pid_t pid, const char *path, int flags);
/* Copies ranges of the process's memory to buf, one after the other: *got bytes each, the rest is
 * 0. Returns 0 or -errno. */
#define READER_RANGES_MAX 256
#define READER_MEMORY_MAX (1u << 20) /* total bytes */
struct reader_range {
	uint64_t addr;
	uint32_t len, got;
};
int reader__memory(pid_t pid, struct reader_range *ranges, unsigned cnt, uint8_t *buf);
/* Reads up to size bytes of such a file or copy, and closes it. Returns their number or -errno. */
ssize_t reader__take(int fd, void *buf, size_t size);

/* The user who started the process, also if it runs as another; -1: it has ended, or pid is 0. Runs
 * in the caller. */
uid_t reader__user(pid_t pid);

/* time_budget__begin() for the user of the process. */
int reader__begin(struct work *w, pid_t pid, enum work_kind kind);

struct reader_stats {
	uint64_t lost;	  /* reads that hung */
	uint64_t refused; /* files on other users' file systems, and reads refused beforehand */
};
void reader__stats(struct reader_stats *stats);

#endif /* UTIL_READER_H */
