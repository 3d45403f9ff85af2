/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The library is mapped before the fork; parent and child each use the driver. */
#include "case.h"

#include <sys/wait.h>

int main(void)
{
	int status;
	pid_t pid;

	case_open();
	pid = fork();
	if (pid < 0)
		die("cannot fork");
	case_context();
	case_free(case_alloc(pid ? 1000 : 2000));
	if (!pid)
		return 0;
	if (waitpid(pid, &status, 0) != pid || status)
		die("the child failed");
	case_free(case_alloc(3000));
	/* A second child, which never touches the driver, and one that dies by a signal. */
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	pid = fork();
	if (!pid)
		abort();
	waitpid(pid, &status, 0);
	return 0;
}
