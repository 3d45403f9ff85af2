/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded into the tracer: the first process of which a mapped file is opened for the second time
 * ends meanwhile, and is waited for by its parent. The kernel's answer then depends on how far it
 * has come in the path: ENOENT, or ESRCH when it has just found the process's folder
 * (proc_pid_permission(), Linux 6.18), which is a matter of microseconds; here it is always ESRCH.
 * The pid goes to the file ENDED_PID.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int end(int pid)
{
	FILE *f = fopen(getenv("ENDED_PID"), "wx");
	char path[32];

	if (!f)
		return 0;
	fprintf(f, "%d\n", pid);
	fclose(f);
	kill(pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	while (!access(path, F_OK))
		usleep(1000);
	errno = ESRCH;
	return -1;
}

/* What the tracer's code calls, if compiled with _FORTIFY_SOURCE, where the flags are no constant.
 */
int __open_2(const char *path, int flags)
{
	static char before[128];
	int pid;

	if (sscanf(path, "/proc/%d/", &pid) == 1 && strstr(path, "/map_files/")) {
		if (!strcmp(path, before) && end(pid))
			return -1;
		snprintf(before, sizeof(before), "%s", path);
	}
	return open(path, flags);
}
