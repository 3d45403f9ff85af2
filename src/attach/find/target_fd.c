/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A library that a process is loading: already open, not yet mapped executable. */
#include "target.h"

#include "util/reader.h"
#include "util/task.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int target_libs__add_open(struct target_libs *list, pid_t pid, int fd, const char *file)
{
	unsigned before = list->cnt;
	char path[64], link[32], name[4096];
	const struct api *api;
	bool deleted;
	char *own;
	ssize_t n;
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)task_living(pid), fd);
	snprintf(link, sizeof(link), "fd/%d", fd);
	n = reader__link(pid, link, name, sizeof(name));
	/* The kernel does not return a path of more than a page; the file opens nevertheless. */
	if (n == -ENAMETOOLONG)
		n = snprintf(name, sizeof(name), ".../%s", file);
	if (n <= 0)
		return n == -EACCES ? -EACCES : -ENOENT;
	api = target_api_of_path(target_cut_deleted(name, &deleted));
	if (!api)
		return -ENOENT;
	ret = target_libs__add_path_of(list, api, pid, path);
	if (ret || list->cnt == before)
		return ret;
	/* Use the target's own path, not our path to it. */
	own = strdup(name);
	if (!own)
		return -ENOMEM;
	free(list->libs[before].path);
	list->libs[before].path = own;
	list->libs[before].deleted = deleted;
	list->libs[before].pid = pid;
	return 0;
}

/* A loader has few files open. */
#define FDS_MAX 1024

static bool is_file(pid_t pid, const char *path, uint64_t ino)
{
	int fd = reader__open(pid, path, 0);
	struct stat st;
	bool is_it = fd >= 0 && !fstat(fd, &st) && st.st_ino == ino;

	if (fd >= 0)
		close(fd);
	return is_it;
}

char *target_fd_path(pid_t pid, uint64_t ino, const char *name)
{
	pid_t tid = task_living(pid);
	char folder[32], path[64], *found = NULL;
	unsigned cnt = 0;
	struct dirent *de;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", tid);
	dir = strncmp(name, "/memfd:", 7) ? NULL : opendir(folder);
	while (dir && !found && cnt++ < FDS_MAX && (de = readdir(dir))) {
		char link[8] = "", inside[24];

		snprintf(path, sizeof(path), "%s/%.16s", folder, de->d_name);
		snprintf(inside, sizeof(inside), "fd/%.16s", de->d_name);
		/* Open no other file: a server behind it might not answer. */
		if (reader__link(tid, inside, link, sizeof(link)) == 7 && !memcmp(link, name, 7) &&
		    is_file(tid, path, ino))
			found = strdup(path);
	}
	if (dir)
		closedir(dir);
	return found;
}
