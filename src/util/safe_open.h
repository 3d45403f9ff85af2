/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens files for writing as root on behalf of a user, where other users may have placed traps. The
 * path is walked one component at a time. A symbolic link is followed only if it belongs to root,
 * to us or to the owner. So the file that was checked is the file that is opened.
 */
#ifndef UTIL_SAFE_OPEN_H
#define UTIL_SAFE_OPEN_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Sets the owner of files: they are opened with the owner's rights and belong to the owner. */
void safe_open_owner(uid_t uid, gid_t gid, const gid_t *groups, int group_cnt);

enum safe_open_why {
	SAFE_OPEN_OK,
	SAFE_OPEN_ERRNO,	  /* errno has the reason */
	SAFE_OPEN_FOREIGN_FILE,	  /* exists and belongs to another user */
	SAFE_OPEN_FOREIGN_LINK,	  /* a symbolic link of another user is on the path */
	SAFE_OPEN_HARD_LINK,	  /* exists and has other names */
	SAFE_OPEN_FOREIGN_FOLDER, /* a directory to be made exists and belongs to another user */
	SAFE_OPEN_INPUT,	  /* safe_open_keep() */
};

/* Marks a regular file as an input: no output may be written to it, under any name. */
void safe_open_keep(dev_t dev, ino_t ino);
/* Returns whether the file was marked. */
bool safe_open_is_kept(const struct stat *st);

/*
 * Creates a file (mode 0600), or empties an existing one. Devices may belong to any user. A
 * standard stream or a descriptor (/dev/stdout, /dev/fd/N, /proc/self/fd/N) is duplicated. Returns
 * -1 on error: *why.
 */
int safe_open(const char *path, enum safe_open_why *why);
/* The descriptor that a path such as /dev/fd/N stands for; -1: it is another path. */
int safe_open_fd(const char *path);
/* Makes a directory (mode 0700) if it does not exist. */
bool safe_mkdir(const char *path, enum safe_open_why *why);
/* Like mkdtemp(), with the owner's rights: the directory belongs to the owner. */
bool safe_mkdtemp(char *path);
/* Removes a file, or an empty directory. */
void safe_remove(const char *path);

#endif /* UTIL_SAFE_OPEN_H */
