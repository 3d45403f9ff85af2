/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded into the tracer: the process whose number is in the file ENDS_PID ends, and is reaped,
 * when a file that it has mapped is opened for the second time. The kernel then returns ENOENT, or
 * ESRCH if it has just found the folder of the process (proc_pid_permission(), Linux 6.18), which
 * depends on microseconds; here it is always ESRCH.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_to_end(int pid)
{
	FILE *f = fopen(getenv("ENDS_PID"), "r");
	int its = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &its) != 1)
		its = 0;
	fclose(f);
	return its == pid;
}

static void end(int pid)
{
	char path[32];

	kill(pid, SIGKILL);
	snprintf(path, sizeof(path), "/proc/%d", pid);
	while (!access(path, F_OK))
		usleep(1000);
}

/* The function that the tracer calls if compiled with _FORTIFY_SOURCE and flags that are not
 * constant. */
int __open_2(const char *path, int flags)
{
	static int opened;
	int pid;

	if (sscanf(path, "/proc/%d/", &pid) == 1 && strstr(path, "/map_files/") && is_to_end(pid) &&
	    opened++) {
		end(pid);
		errno = ESRCH;
		return -1;
	}
	return open(path, flags);
}
