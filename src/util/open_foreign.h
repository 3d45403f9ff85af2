/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opening a file whose path, or what lies there, a traced process has chosen. */
#ifndef UTIL_OPEN_FOREIGN_H
#define UTIL_OPEN_FOREIGN_H

#include <sys/stat.h>

/*
 * To read, and only if it is a regular file: opening a FIFO or a device may wait, or do something.
 * Below /proc/PID/root the path is what it is to that process: no link there leads to a file of
 * ours, and nothing of a procfs is opened. -1 with errno: EISDIR, EINVAL (not a regular file), ...
 */
int open_foreign(const char *path, struct stat *st);
/* The same, but not when the last component is a link (ELOOP). */
int open_foreign_nofollow(const char *path, struct stat *st);

#endif /* UTIL_OPEN_FOREIGN_H */
