/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What /proc tells about the threads of a process, without waiting for the process. */
#ifndef UTIL_TASK_H
#define UTIL_TASK_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The thread whose files in /proc show the process: pid itself while its main thread lives. When
 * the main thread has ended and others work, /proc/PID/maps, fd, exe, root, environ and mem are
 * empty or refused, and /proc/TID has them (Linux 6.18). 0: all threads have ended or are ending,
 * so that the memory of the process is gone, or may go at any moment.
 */
pid_t task_living(pid_t pid);

/* The process of a thread; id itself when it is a process, or when that cannot be read. */
pid_t task_process(pid_t id);

/* A thread of the kernel itself, which has no memory of a program. */
bool task_is_kernel(pid_t pid);

#endif /* UTIL_TASK_H */
