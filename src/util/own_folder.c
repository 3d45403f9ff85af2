/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "own_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_above(int fd, const char *name)
{
	return openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* In a user namespace of a user, root is the overflow user id. */
static uid_t owner_of_all(void)
{
	struct stat st;

	return stat("/", &st) ? 0 : st.st_uid;
}

static bool is_owner_trusted(const struct stat *st)
{
	return !st->st_uid || st->st_uid == geteuid() || st->st_uid == owner_of_all();
}

bool folder__is_path_ours(const char *path)
{
	char part[PATH_MAX];
	struct stat st;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return false;
	for (char *at = part, *end; *at; at = end) {
		char was;

		end = at + strspn(at, "/");
		end += strcspn(end, "/");
		was = *end;
		*end = '\0';
		if (lstat(part, &st) || !is_owner_trusted(&st))
			return false;
		/* A link leads to a directory that contains further names of the path. */
		if (S_ISLNK(st.st_mode) && (stat(part, &st) || !is_owner_trusted(&st)))
			return false;
		if (st.st_mode & 0022 && !(st.st_mode & S_ISVTX))
			return false;
		*end = was;
	}
	return true;
}

bool folder__is_ours(int dir_fd, bool is_shared)
{
	int fd = open_above(dir_fd, "."), up = -1;
	mode_t bad = 0022, sticky = is_shared ? S_ISVTX : 0;
	struct stat st, above;
	bool is_safe = false, top = false;

	while (fd >= 0 && !top && !fstat(fd, &st)) {
		is_safe = is_owner_trusted(&st) && (!(st.st_mode & bad) || st.st_mode & sticky);
		up = is_safe ? open_above(fd, "..") : -1;
		is_safe = up >= 0 && !fstat(up, &above);
		top = !is_safe || (above.st_ino == st.st_ino && above.st_dev == st.st_dev);
		close(fd);
		fd = up;
		sticky = S_ISVTX;
	}
	if (fd >= 0)
		close(fd);
	return is_safe && top;
}
