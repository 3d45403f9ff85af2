/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "inherited.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

/* Those that trace/tracer.c raises. */
static struct {
	int which;
	bool known;
	struct rlimit at_start;
} limits[] = {{.which = RLIMIT_NOFILE}, {.which = RLIMIT_MEMLOCK}};
#define LIMIT_CNT (sizeof(limits) / sizeof(limits[0]))

static struct sigaction sigpipe;
static sigset_t blocked;

__attribute__((constructor)) static void note(void)
{
	sigaction(SIGPIPE, NULL, &sigpipe);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (unsigned i = 0; i < LIMIT_CNT; i++)
		limits[i].known = !getrlimit(limits[i].which, &limits[i].at_start);
}

void inherited_restore(void)
{
	for (unsigned i = 0; i < LIMIT_CNT; i++)
		if (limits[i].known)
			setrlimit(limits[i].which, &limits[i].at_start);
	sigaction(SIGPIPE, &sigpipe, NULL);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
}
