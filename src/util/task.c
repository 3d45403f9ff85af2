/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "task.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's threads are its children (Linux 6.18). A process that exits has no memory either. */
#define KTHREADD 2

bool task_read(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, size - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Reads a thread's status. Returns false once it has ended. has_memory: the kernel shows VmSize
 * until it releases the memory. */
static bool read_status(pid_t pid, pid_t tid, bool *has_memory, pid_t *parent)
{
	const char *at, *line;
	char buf[4096];
	int ppid;

	task_read(pid, tid, "status", buf, sizeof(buf));
	at = strstr(buf, "\nState:\t");
	*has_memory = strstr(buf, "\nVmSize:");
	*parent = -1;
	if ((line = strstr(buf, "\nPPid:\t")) && sscanf(line, "\nPPid:\t%d", &ppid) == 1)
		*parent = ppid;
	return at && at[8] != 'Z' && at[8] != 'X';
}

static bool is_living(pid_t pid, pid_t tid)
{
	bool has_memory;
	pid_t parent;

	return read_status(pid, tid, &has_memory, &parent) && has_memory;
}

pid_t task_living(pid_t pid)
{
	struct dirent *de;
	char path[32];
	pid_t found = 0;
	DIR *dir;

	if (is_living(pid, pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && !found && (de = readdir(dir))) {
		pid_t tid = atoi(de->d_name);

		if (tid > 0 && is_living(pid, tid))
			found = tid;
	}
	if (dir)
		closedir(dir);
	return found;
}

pid_t task_process(pid_t id)
{
	char path[32], line[256];
	int tgid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)id);
	f = fopen(path, "re");
	/* A process name cannot fake this line: the kernel writes its newlines as \n. */
	while (f && !tgid && fgets(line, sizeof(line), f))
		sscanf(line, "Tgid:\t%d", &tgid);
	if (f)
		fclose(f);
	return tgid > 0 ? tgid : id;
}

bool task_is_kernel(pid_t pid)
{
	bool has_memory;
	pid_t parent;

	return read_status(pid, pid, &has_memory, &parent) && !has_memory &&
	       (pid == KTHREADD || parent == KTHREADD);
}
