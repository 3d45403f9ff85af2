/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* filtered kill|trap|errno|zero|notify CALL PROGRAM [ARGUMENT]...: runs the program under a filter
 * that does this at each such system call; zero: it returns 0 without doing anything; notify: it
 * waits for ever for a process that decides. Exit status 77: this machine has no such call.
 * filtered docker - PROGRAM [ARGUMENT]...: the same under a container's filter (late_filters.c). */
#include <errno.h>
#include <seccomp.h>
#include <string.h>
#include <unistd.h>

/* late_filters.c */
int docker_filter(void);

static int call_filter(char **argv)
{
	uint32_t action = !strcmp(argv[1], "kill")     ? SCMP_ACT_KILL_PROCESS
			  : !strcmp(argv[1], "trap")   ? SCMP_ACT_TRAP
			  : !strcmp(argv[1], "zero")   ? SCMP_ACT_ERRNO(0)
			  : !strcmp(argv[1], "notify") ? SCMP_ACT_NOTIFY
						       : SCMP_ACT_ERRNO(EPERM);
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int nr = seccomp_syscall_resolve_name(argv[2]);

	if (nr < 0)
		return 77;
	if (!ctx || seccomp_rule_add(ctx, action, nr, 0) || seccomp_load(ctx))
		return 1;
	/* The program has the descriptor, and does not read it. */
	return action == SCMP_ACT_NOTIFY && dup(seccomp_notify_fd(ctx)) < 0;
}

int main(int argc, char **argv)
{
	int ret = strcmp(argv[1], "docker") ? call_filter(argv) : docker_filter();

	if (!ret)
		execvp(argv[3], argv + 3);
	return ret ?: 1;
}
