/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads /proc about the threads of a process, without waiting for the process. */
#ifndef UTIL_TASK_H
#define UTIL_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reads a file of a thread in /proc, up to size - 1 bytes, and ends it with a NUL. Returns false if
 * the thread has ended or the file is empty. Choose a file that waits for no lock of the process:
 * status, schedstat and wchan do not wait; stat and syscall wait for its execve() (6.18). */
bool task_read(pid_t pid, pid_t tid, const char *name, char *buf, size_t size);

/*
 * Returns the thread whose files in /proc describe the process: pid itself while its main thread
 * lives. When only other threads are left, /proc/PID/maps, fd, exe, root, environ and mem are empty
 * or refused, and /proc/TID has them (Linux 6.18). Returns 0 when all threads have ended or are
 * ending: the memory of the process is gone, or may be gone at any moment.
 */
pid_t task_living(pid_t pid);

/* The process of a thread; id itself when it is a process, or on error. */
pid_t task_process(pid_t id);

/* Returns whether it is a kernel thread, which has no user memory. */
bool task_is_kernel(pid_t pid);

#endif /* UTIL_TASK_H */
