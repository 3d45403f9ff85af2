/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool spool_is_trace(const char *name)
{
	return !strncmp(name, SPOOL_TRACE, strlen(SPOOL_TRACE)) && strstr(name, ".jsonl");
}

const char *spool_stamp(const char *name)
{
	if (!strncmp(name, SPOOL_DUMP, strlen(SPOOL_DUMP)) && strstr(name, ".jsonl"))
		return name + strlen(SPOOL_DUMP);
	if (!strncmp(name, SPOOL_PROFILE, strlen(SPOOL_PROFILE)) && strstr(name, SPOOL_PROFILE_END))
		return name + strlen(SPOOL_PROFILE);
	return spool_is_trace(name) ? name + strlen(SPOOL_TRACE) : NULL;
}

bool spool_is_part(const char *name)
{
	size_t len = strlen(name);

	return len > strlen(SPOOL_PART) && !strcmp(name + len - strlen(SPOOL_PART), SPOOL_PART);
}

int spool_dump_name_len(const char *name)
{
	static const char *const ends[] = {".zst", ".jsonl"};
	size_t len = strlen(name), end;

	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")])
		return -1;
	for (int i = 0; i < 2; i++) {
		end = strlen(ends[i]);
		if (len > end && !strncmp(name + len - end, ends[i], end))
			len -= end;
	}
	return len && len <= SPOOL_DUMP_NAME_MAX ? (int)len : -1;
}

static void see(struct spool *f, const char *name, uint64_t bytes)
{
	f->bytes += bytes;
	if (!f->oldest[0] || strcmp(spool_stamp(name), spool_stamp(f->oldest)) < 0)
		strcpy(f->oldest, name);
	if (!f->newest[0] || strcmp(spool_stamp(name), spool_stamp(f->newest)) > 0)
		strcpy(f->newest, name);
}

struct spool spool__scan(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct spool f = {0};
	struct dirent *de;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return f;
	}
	while ((de = readdir(dir))) {
		if (spool_stamp(de->d_name) && !spool_is_part(de->d_name) &&
		    strlen(de->d_name) < SPOOL_NAME_SZ &&
		    !fstatat(dir_fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
			see(&f, de->d_name, st.st_size);
	}
	closedir(dir);
	return f;
}
