/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes that -p names. */
#ifndef TRACE_TARGETS_H
#define TRACE_TARGETS_H

#include <sys/types.h>

/*
 * Replaces the id of a thread by that of its process, and says so; drops what is named twice.
 * 0, or -errno after reporting a process that cannot be traced: it does not exist or has ended, is
 * a thread of the kernel, is this cudatrace, or a 32-bit program.
 */
int targets__check(pid_t *pids, unsigned *cnt);

/* Reports that /proc/PID may not be read, and what is missing. ret: -errno of that. */
void targets__say_refused(pid_t pid, int ret);

#endif /* TRACE_TARGETS_H */
