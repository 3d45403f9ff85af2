/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "dossier_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/out.h"

#define NAME_SZ 128

static DIR *open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* The bytes of the folder's files, which are removed if asked for. */
static uint64_t each_file(int at, const char *name, bool remove)
{
	DIR *dir = open_dir(at, name);
	uint64_t bytes = 0;
	struct dirent *de;
	struct stat st;

	while (dir && (de = readdir(dir))) {
		if (!fstatat(dirfd(dir), de->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode))
			bytes += st.st_size;
		if (remove && strcmp(de->d_name, ".") && strcmp(de->d_name, ".."))
			unlinkat(dirfd(dir), de->d_name, 0);
	}
	if (dir)
		closedir(dir);
	return bytes;
}

struct folders {
	char oldest[NAME_SZ];
	uint64_t cnt, bytes;
};

static struct folders scan(int at)
{
	DIR *dir = open_dir(at, ".");
	struct folders f = {0};
	struct dirent *de;

	while (dir && (de = readdir(dir))) {
		if (strncmp(de->d_name, DOSSIER_PREFIX, strlen(DOSSIER_PREFIX)) ||
		    strlen(de->d_name) >= NAME_SZ)
			continue;
		f.cnt++;
		f.bytes += each_file(at, de->d_name, false);
		if (!*f.oldest || strcmp(de->d_name, f.oldest) < 0)
			strcpy(f.oldest, de->d_name);
	}
	if (dir)
		closedir(dir);
	return f;
}

int dossier_store__shrink(int dir, uint64_t keep, uint64_t bytes)
{
	struct folders f = scan(dir);

	while (f.cnt && (f.cnt > keep || f.bytes > bytes)) {
		each_file(dir, f.oldest, true);
		if (unlinkat(dir, f.oldest, AT_REMOVEDIR))
			return -errno;
		f = scan(dir);
	}
	return 0;
}

int dossier_store__make(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0700))
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int dossier_store__create(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int dossier_store__write(int folder, const char *name, const struct out *text)
{
	int fd = dossier_store__create(folder, name), ret = 0;
	size_t done = 0;

	if (fd < 0)
		return fd;
	while (!ret && done < text->len) {
		ssize_t n = write(fd, text->buf + done, text->len - done);

		if (n > 0)
			done += n;
		else if (!n || errno != EINTR)
			ret = n ? -errno : -ENOSPC;
	}
	if (close(fd) && !ret)
		ret = -errno;
	return ret;
}
