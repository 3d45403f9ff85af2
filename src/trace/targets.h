/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes that -p names. */
#ifndef TRACE_TARGETS_H
#define TRACE_TARGETS_H

#include <sys/types.h>

/*
 * Replaces a thread's id by its process's id, with a note; drops duplicates. 0, or -errno after
 * reporting a process that cannot be traced. That is one that does not exist or has ended, a kernel
 * thread, this cudatrace, or a 32-bit program.
 */
int targets__check(pid_t *pids, unsigned *cnt);

/* Reports that /proc/PID cannot be read, and the missing permission. ret: -errno of the attempt. */
void targets__report_refused(pid_t pid, int ret);

#endif /* TRACE_TARGETS_H */
