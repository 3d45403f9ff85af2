/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* exec [child | last]: makes calls, then a child executes this program again, then this process
 * does. */
#include "case.h"

#include <sys/wait.h>

int main(int argc, char **argv)
{
	const char *role = argc > 1 ? argv[1] : "first";
	size_t size = strcmp(role, "child") ? strcmp(role, "last") ? 1000 : 3000 : 2000;
	int status;
	pid_t pid;

	case_open();
	case_context();
	case_free(case_alloc(size));
	if (strcmp(role, "first"))
		return 0;
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "exec", "child", NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		die("the child failed");
	case_alloc(4000);
	execl("/proc/self/exe", "exec", "last", NULL);
	die("cannot run myself");
}
