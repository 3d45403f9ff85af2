/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool folder_is_trace(const char *name)
{
	return !strncmp(name, FOLDER_TRACE, strlen(FOLDER_TRACE)) && strstr(name, ".jsonl");
}

const char *folder_stamp(const char *name)
{
	if (!strncmp(name, FOLDER_DUMP, strlen(FOLDER_DUMP)) && strstr(name, ".jsonl"))
		return name + strlen(FOLDER_DUMP);
	return folder_is_trace(name) ? name + strlen(FOLDER_TRACE) : NULL;
}

bool folder_is_part(const char *name)
{
	size_t len = strlen(name);

	return len > strlen(FOLDER_PART) && !strcmp(name + len - strlen(FOLDER_PART), FOLDER_PART);
}

int folder_dump_name_len(const char *name)
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
	return len && len <= FOLDER_DUMP_NAME_MAX ? (int)len : -1;
}

static void see(struct folder *f, const char *name, uint64_t bytes)
{
	f->bytes += bytes;
	if (!f->oldest[0] || strcmp(folder_stamp(name), folder_stamp(f->oldest)) < 0)
		strcpy(f->oldest, name);
	if (!f->newest[0] || strcmp(folder_stamp(name), folder_stamp(f->newest)) > 0)
		strcpy(f->newest, name);
}

struct folder folder__look(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct folder f = {0};
	struct dirent *de;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return f;
	}
	while ((de = readdir(dir))) {
		if (folder_stamp(de->d_name) && !folder_is_part(de->d_name) &&
		    strlen(de->d_name) < FOLDER_NAME_SZ &&
		    !fstatat(dir_fd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
			see(&f, de->d_name, st.st_size);
	}
	closedir(dir);
	return f;
}
