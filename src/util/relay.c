/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "relay.h"

#include "log.h"
#include "privs.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool relay_is_for_us(const siginfo_t *si, bool is_leader)
{
	if (si->si_signo == SIGHUP && si->si_code == SI_KERNEL)
		return is_leader;
	/* A write to a closed pipe sends SIGPIPE as kill() would, and so does exceeding a file size
	 * limit. */
	return si->si_code <= 0 && si->si_pid != getpid();
}

void relay_signal(pid_t child, const siginfo_t *si)
{
	/* The kernel refuses SI_USER and SI_TKILL here. */
	if (si->si_code < 0 && si->si_code != SI_TKILL &&
	    !syscall(SYS_rt_sigqueueinfo, child, si->si_signo, si))
		return;
	kill(child, si->si_signo);
}

void relay_stop_too(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int relay_until_end(pid_t child)
{
	bool is_leader = getsid(0) == getpid();
	siginfo_t si;
	sigset_t all;
	int status;
	pid_t pid;

	sigfillset(&all);
	for (;;) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == child && !WIFSTOPPED(status))
				return status;
		if (sigwaitinfo(&all, &si) > 0 && relay_is_for_us(&si, is_leader))
			relay_signal(child, &si);
	}
}

void relay_as_init(void)
{
	sigset_t all, old;
	int status;
	pid_t pid;

	if (getpid() != 1)
		return;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid > 0) {
		privs_drop();
		prctl(PR_SET_NAME, "cudatrace-init");
		status = relay_until_end(pid);
		_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
	}
	if (pid < 0)
		warn("cannot fork as process 1: %s: orphans are not reaped", strerror(errno));
	sigprocmask(SIG_SETMASK, &old, NULL);
}
