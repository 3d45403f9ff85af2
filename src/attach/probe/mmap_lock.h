/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds processes that hold their memory lock. To add or remove a probe, the kernel takes this lock
 * of every process that maps the file, uninterruptibly. A process may hold it forever: munmap() of
 * a page that a FUSE server must write first. The waiter then holds a lock that every fork() of the
 * machine needs (dup_mmap_sem; all kernels). So the locks are checked before. The check finds
 * threads that wait, in any state, in a system call or page fault that takes the lock, and have
 * not run since the previous check. A thread of any process that waits for its memory lock in
 * fork() holds dup_mmap_sem itself: then no probe of any file may be changed.
 */
#ifndef ATTACH_PROBE_MMAP_LOCK_H
#define ATTACH_PROBE_MMAP_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

/* A list of waiting threads, to compare with the next one. */
struct waiter {
	pid_t pid, tid;
	unsigned long switches; /* number of context switches */
	bool harmless;		/* its system call changes no memory */
};

struct mmap_waiters {
	struct waiter *v;
	unsigned cnt;
	bool partial; /* no memory for all */
};

/* Returns whether this thread waits, in any state, and has not run since the previous check. */
bool mmap_waiter__is_still(struct waiter *w);
/* Scans all threads of the machine, and keeps its data on those that have not run since. Does
 * not block. */
void mmap_waiters__look(struct mmap_waiters *w);
/* Keeps those that have not run since, or are harmless. Does not block. */
void mmap_waiters__look_again(struct mmap_waiters *w);
void mmap_waiters__free(struct mmap_waiters *w);

/* Returns a process of the list that may map the file of fd and hold the lock; 0: none. Forks
 * processes that live 0.4 s in total at most. Threads that were not examined in this time may hold
 * it: the next call examines them. */
pid_t mmap_waiters__holder(struct mmap_waiters *w, int fd);

/* What a thread with this line of /proc/PID/syscall may hold. */
enum mmap_lock_call {
	MMAP_LOCK_NONE,
	MMAP_LOCK_MAPS,	 /* its memory lock: in a 64-bit or 32-bit system call that changes
			    mappings, or in a page fault */
	MMAP_LOCK_FORKS, /* dup_mmap_sem, while it waits for its memory lock: in fork() */
};
enum mmap_lock_call mmap_lock_call(const char *line);

/* For messages: returns a process that waits uninterruptibly; 0: none. links, which waits for it,
 * is excluded. */
pid_t mmap_waiters__suspect(pid_t links);

#endif /* ATTACH_PROBE_MMAP_LOCK_H */
