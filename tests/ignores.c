/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ignores COMMAND...: executes the command with all possible signals ignored, including those that
 * glibc uses itself. */
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	/* The kernel's struct. */
	const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} ignore = {.handler = (void *)SIG_IGN};

	/* Not SIGCHLD: a process that ignores it cannot wait for children. */
	for (int sig = 1; argc > 1 && sig < 65; sig++)
		if (sig != SIGCHLD)
			syscall(SYS_rt_sigaction, sig, &ignore, NULL, sizeof(ignore.mask));
	if (argc > 1)
		execvp(argv[1], argv + 1);
	return 127;
}
