/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The mounts of a process, and who controls them. A mount namespace may have 100,000 mounts
 * (/proc/sys/fs/mount-max). They are read once, and again after a change (mountinfo then polls as
 * POLLPRI: proc(5), since Linux 2.6.15).
 */
#ifndef UTIL_READER_MOUNTS_H
#define UTIL_READER_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns whether only the administrator controls reads of mount id in the namespace of the process
 * (pid 0: ours): 1, 0, or -1 if there is no such mount. */
int reader_mounts__are_safe(pid_t pid, unsigned long long id);
/* Frees the tables, which keep namespaces alive: to be called after a second without requests. */
void reader_mounts__forget(void);

#endif /* UTIL_READER_MOUNTS_H */
