/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a process has mounted, and who answers for it. A mount namespace may have 100,000 mounts
 * (/proc/sys/fs/mount-max): they are read once, and again when the kernel says that they have
 * changed (mountinfo is readable for POLLPRI then: proc(5), from Linux 2.6.15 on).
 */
#ifndef UTIL_READER_MOUNTS_H
#define UTIL_READER_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Does only the administrator answer for reads of what is mounted as id in the process's namespace
 * (pid 0: ours)? 1, 0, or -1: there is no such mount. */
int reader_mounts__are_safe(pid_t pid, unsigned long long id);
/* What is kept keeps namespaces alive: to be called when nothing has been asked for a second. */
void reader_mounts__forget(void);

#endif /* UTIL_READER_MOUNTS_H */
