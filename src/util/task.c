/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "task.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PF_... of Linux 6.18, part of the flags in stat (proc(5)). The kernel sets PF_EXITING before it
 * releases the memory of a thread. */
#define PF_EXITING 0x00000004u
#define PF_KTHREAD 0x00200000u

/* Reads the flags of a thread (proc(5): stat, field 9); false: it has ended. */
static bool read_flags(pid_t pid, pid_t tid, unsigned *flags)
{
	char path[64], buf[1024];
	const char *at;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	f = fopen(path, "re");
	n = f ? fread(buf, 1, sizeof(buf) - 1, f) : 0;
	if (f)
		fclose(f);
	buf[n] = '\0';
	at = strrchr(buf, ')'); /* a name may contain any character */
	return at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %u", flags) == 1;
}

static bool is_living(pid_t pid, pid_t tid)
{
	unsigned flags;

	return read_flags(pid, tid, &flags) && !(flags & PF_EXITING);
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
	unsigned flags;

	return read_flags(pid, pid, &flags) && flags & PF_KTHREAD;
}
