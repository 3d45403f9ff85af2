/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * takes_signals LIBCUDA LOG SECONDS [all]: makes calls, and notes each signal that it receives:
 *   pid N, ready     it has started
 *   SIGNAL VALUE     one line for each; VALUE is that of sigqueue(), or 0
 *   checkpoint N     SECONDS after the first SIGTERM: it made N calls, and exits with status 5
 * Signals that its parent ignored stay ignored, unless "all" is given.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Signals that stop a process keep their default action; so do those that the kernel refuses to
 * block. */
static void choose(sigset_t *set, int all)
{
	static const int others[] = {SIGTSTP, SIGTTIN, SIGTTOU};

	sigfillset(set);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sigdelset(set, others[i]);
	for (int signo = 1; signo <= SIGRTMAX && !all; signo++) {
		struct sigaction sa;

		if (!sigaction(signo, NULL, &sa) && sa.sa_handler == SIG_IGN)
			sigdelset(set, signo);
	}
	sigprocmask(SIG_SETMASK, set, NULL);
}

int main(int argc, char **argv)
{
	const struct timespec wait = {.tv_nsec = 10000000};
	int log = open(argv[2], O_WRONLY | O_APPEND | O_CREAT, 0666);
	void *lib = dlopen(argv[1], RTLD_NOW);
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	int (*call)(void) = (int (*)(void))dlsym(lib, "cuCtxSynchronize");
	double end = 0;
	unsigned calls = 1;
	siginfo_t si;
	sigset_t set;

	choose(&set, argc > 4);
	init(0);
	dprintf(log, "pid %d\nready\n", getpid());
	while (!end || now() < end) {
		call();
		calls++;
		if (sigtimedwait(&set, &si, &wait) <= 0)
			continue;
		dprintf(log, "%d %d\n", si.si_signo,
			si.si_code == SI_QUEUE ? si.si_value.sival_int : 0);
		if (si.si_signo == SIGTERM && !end)
			end = now() + atof(argv[3]);
	}
	dprintf(log, "checkpoint %u\n", calls);
	return 5;
}
