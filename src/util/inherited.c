/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inherited.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Those that trace/tracer.c raises. */
static struct {
	int which;
	bool known;
	struct rlimit at_start;
} limits[] = {{.which = RLIMIT_NOFILE}, {.which = RLIMIT_MEMLOCK}};
#define LIMIT_CNT (sizeof(limits) / sizeof(limits[0]))

/* Those that session.c ignores. */
static struct {
	int number;
	struct sigaction at_start;
} signals[] = {{.number = SIGPIPE}, {.number = SIGXFSZ}};
#define SIGNAL_CNT (sizeof(signals) / sizeof(signals[0]))
static sigset_t blocked;

/*
 * The two signals that glibc keeps for itself (SIGCANCEL, SIGSETXID), and of which sigaction()
 * knows nothing. With the first thread they get handlers, which an exec makes the default of: one
 * that was ignored is not any more. As the kernel has it (struct sigaction of x86-64 and arm64).
 */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};
static const int own_signals[] = {32, 33};
#define OWN_CNT (sizeof(own_signals) / sizeof(own_signals[0]))
static bool was_ignored[OWN_CNT];

__attribute__((constructor)) static void note(void)
{
	for (unsigned i = 0; i < SIGNAL_CNT; i++)
		sigaction(signals[i].number, NULL, &signals[i].at_start);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (unsigned i = 0; i < OWN_CNT; i++) {
		struct kernel_action a = {0};

		was_ignored[i] =
			!syscall(SYS_rt_sigaction, own_signals[i], NULL, &a, sizeof(a.mask)) &&
			a.handler == (void *)SIG_IGN;
	}
	for (unsigned i = 0; i < LIMIT_CNT; i++)
		limits[i].known = !getrlimit(limits[i].which, &limits[i].at_start);
}

void inherited_restore(void)
{
	for (unsigned i = 0; i < LIMIT_CNT; i++)
		if (limits[i].known)
			setrlimit(limits[i].which, &limits[i].at_start);
	for (unsigned i = 0; i < SIGNAL_CNT; i++)
		sigaction(signals[i].number, &signals[i].at_start, NULL);
	for (unsigned i = 0; i < OWN_CNT; i++) {
		const struct kernel_action ignore = {.handler = (void *)SIG_IGN};

		if (was_ignored[i])
			syscall(SYS_rt_sigaction, own_signals[i], &ignore, NULL,
				sizeof(ignore.mask));
	}
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}
