/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opening a file to write as root on behalf of somebody, where somebody else may have laid traps:
 * the path is walked one component at a time, and a symbolic link on it is followed only when it
 * belongs to root, to us or to the owner. So nothing is checked by one path and opened by another.
 */
#ifndef UTIL_SAFE_OPEN_H
#define UTIL_SAFE_OPEN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* For whom files are written: they are opened with his rights and belong to him. */
void safe_open_owner(uid_t uid, gid_t gid, const gid_t *groups, int group_cnt);

enum safe_open_why {
	SAFE_OPEN_OK,
	SAFE_OPEN_ERRNO,	  /* errno says why */
	SAFE_OPEN_FOREIGN_FILE,	  /* exists and belongs to somebody else */
	SAFE_OPEN_FOREIGN_LINK,	  /* a symbolic link of somebody else is on the path */
	SAFE_OPEN_HARD_LINK,	  /* exists and has other names */
	SAFE_OPEN_FOREIGN_FOLDER, /* a folder to be made is there and belongs to somebody else */
	SAFE_OPEN_INPUT,	  /* safe_open_keep() */
};

/* This file, a regular one, is read: no output may be written to it, whatever its name. */
void safe_open_keep(dev_t dev, ino_t ino);
/* Is it one? */
bool safe_open_is_kept(const struct stat *st);

/*
 * A new file (mode 0600), or an old one, which is emptied. Devices may be anybody's. A standard
 * stream or a descriptor (/dev/stdout, /dev/fd/N, /proc/self/fd/N) is duplicated. -1 on error:
 * *why.
 */
int safe_open(const char *path, enum safe_open_why *why);
/* The descriptor that such a path (/dev/fd/N) stands for; -1: it is another. */
int safe_open_fd(const char *path);
/* Makes a folder (mode 0700) if it is not there. */
bool safe_mkdir(const char *path, enum safe_open_why *why);

#endif /* UTIL_SAFE_OPEN_H */
