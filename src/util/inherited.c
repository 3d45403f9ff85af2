/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inherited.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_SZ  (1 << 20)
#define STACK_MIN (256 << 10)

/* The limits that trace/tracer.c and inherited_raise_stack() raise. */
static struct {
	int which;
	bool known;
	struct rlimit at_start;
} limits[] = {{.which = RLIMIT_NOFILE}, {.which = RLIMIT_MEMLOCK}, {.which = RLIMIT_STACK}};
#define LIMIT_TABLE_CNT (sizeof(limits) / sizeof(limits[0]))

/* Linux has 64 signals on x86-64 and arm64. */
#define SIGNAL_CNT 65
static bool ignored[SIGNAL_CNT];
static sigset_t blocked;

/*
 * The kernel's struct sigaction on x86-64 and arm64. sigaction() refuses the two signals that glibc
 * uses itself (SIGCANCEL, SIGSETXID). They get handlers with the first thread, which an exec resets
 * to the default action: a signal that was ignored would no longer be ignored.
 */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static void set(int signo, void *handler)
{
	const struct kernel_action a = {.handler = handler};

	syscall(SYS_rt_sigaction, signo, &a, NULL, sizeof(a.mask));
}

__attribute__((constructor)) static void note(void)
{
	for (int signo = 1; signo < SIGNAL_CNT; signo++) {
		struct kernel_action a = {0};

		ignored[signo] = !syscall(SYS_rt_sigaction, signo, NULL, &a, sizeof(a.mask)) &&
				 a.handler == (void *)SIG_IGN;
	}
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (unsigned i = 0; i < LIMIT_TABLE_CNT; i++)
		limits[i].known = !getrlimit(limits[i].which, &limits[i].at_start);
	/* The exit status of a child is lost where SIGCHLD is ignored (waitpid(2)). */
	if (ignored[SIGCHLD])
		set(SIGCHLD, SIG_DFL);
}

bool inherited_raise_stack(void)
{
	struct rlimit limit;
	pthread_attr_t attr;

	if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_SZ)
		return true;
	limit.rlim_cur = limit.rlim_max < STACK_SZ ? limit.rlim_max : STACK_SZ;
	/* libc has read the limit already, for the stacks of threads. */
	return limit.rlim_cur >= STACK_MIN && !setrlimit(RLIMIT_STACK, &limit) &&
	       !pthread_getattr_default_np(&attr) &&
	       !pthread_attr_setstacksize(&attr, limit.rlim_cur) &&
	       !pthread_setattr_default_np(&attr);
}

bool inherited_ignores(int signo)
{
	return signo > 0 && signo < SIGNAL_CNT && ignored[signo];
}

void inherited_restore(void)
{
	for (unsigned i = 0; i < LIMIT_TABLE_CNT; i++)
		if (limits[i].known)
			setrlimit(limits[i].which, &limits[i].at_start);
	/* Handlers do not survive exec; signals that we ignore would stay ignored. */
	for (int signo = 1; signo < SIGNAL_CNT; signo++) {
		struct kernel_action a = {0};

		if (syscall(SYS_rt_sigaction, signo, NULL, &a, sizeof(a.mask)))
			continue;
		if (ignored[signo] != (a.handler == (void *)SIG_IGN))
			set(signo, ignored[signo] ? SIG_IGN : SIG_DFL);
	}
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}
