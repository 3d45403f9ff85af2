/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who holds the lock of its memory. To put a probe into a file, or take it off, the kernel takes
 * that lock of every process which maps the file, and cannot be interrupted in it. A process may
 * hold it for ever: munmap() of a page that a FUSE server has to take first. Who waits for it then
 * holds a lock that every fork() of the machine needs (dup_mmap_sem; all kernels). So it is looked
 * at before. Found are threads that wait uninterruptibly in a system call or a page fault of the
 * kind that holds the lock, and have not run since the look before.
 */
#ifndef ATTACH_PROBE_MMAP_LOCK_H
#define ATTACH_PROBE_MMAP_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/* Threads that wait: a look, to be compared with the next. */
struct waiter {
	pid_t pid, tid;
	unsigned long switches; /* how often it has gone to sleep */
};

struct mmap_waiters {
	struct waiter *v;
	unsigned cnt;
};

/* Has this thread not run since the look before, waiting uninterruptibly or stopped? */
bool mmap_waiter__is_still(struct waiter *w);
/* Looks at every thread of the machine: takes a millisecond for a hundred. */
void mmap_waiters__look(struct mmap_waiters *w);
/* Leaves those that have not run since. Waits for nobody. */
void mmap_waiters__look_again(struct mmap_waiters *w);
void mmap_waiters__free(struct mmap_waiters *w);

/* May the process w map the file of fd, and hold that lock? Makes a process for a moment. */
bool mmap_waiter__holds(const struct waiter *w, int fd);

/* For a message: a process that waits uninterruptibly; 0: there is none. links waits for it, and is
 * none. */
pid_t mmap_waiters__suspect(pid_t links);

#endif /* ATTACH_PROBE_MMAP_LOCK_H */
