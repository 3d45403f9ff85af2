/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "own_folder.h"

#include <fcntl.h>
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

bool folder__is_ours(int dir_fd)
{
	int fd = open_above(dir_fd, "."), up = -1;
	uid_t root = owner_of_all();
	mode_t bad = 0022, sticky = 0;
	struct stat st, above;
	bool ours = false, top = false;

	while (fd >= 0 && !top && !fstat(fd, &st)) {
		ours = (!st.st_uid || st.st_uid == root || st.st_uid == geteuid()) &&
		       (!(st.st_mode & bad) || st.st_mode & sticky);
		up = ours ? open_above(fd, "..") : -1;
		ours = up >= 0 && !fstat(up, &above);
		top = !ours || (above.st_ino == st.st_ino && above.st_dev == st.st_dev);
		close(fd);
		fd = up;
		sticky = S_ISVTX;
	}
	if (fd >= 0)
		close(fd);
	return ours && top;
}
