/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A library that a process is just loading: open already, not mapped executable yet. */
#include "target.h"

#include "util/task.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* tid: the thread of the process whose descriptors are looked at. */
static int add_fd(struct target_libs *list, pid_t pid, pid_t tid, const char *fd)
{
	unsigned before = list->cnt;
	char path[64], name[4096];
	const struct api *api;
	const char *base;
	ssize_t n;
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", tid, fd);
	n = readlink(path, name, sizeof(name) - 1);
	if (n <= 0)
		return 0;
	name[n] = 0;
	base = strrchr(name, '/');
	api = base ? api_of_file(base + 1) : NULL;
	if (!api)
		return 0;
	ret = target_libs__add_path_of(list, api, pid, path);
	if (ret || list->cnt == before)
		return ret;
	/* Named as the target knows it, not by our way to it. */
	base = strdup(name);
	if (!base)
		return -1;
	free(list->libs[before].path);
	list->libs[before].path = (char *)base;
	list->libs[before].pid = pid;
	return 0;
}

int target_libs__add_open(struct target_libs *list, pid_t pid)
{
	struct dirent *de;
	pid_t tid = task_living(pid);
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", tid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((de = readdir(dir)))
		if (isdigit((unsigned char)de->d_name[0]))
			add_fd(list, pid, tid, de->d_name);
	closedir(dir);
	return 0;
}
