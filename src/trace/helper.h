/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace-nvml (nvml/) and cudatrace-pm (pm/), which are embedded in this program. */
#ifndef TRACE_HELPER_H
#define TRACE_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

struct helper {
	/* Records come from socks[0]; closing it ends the process. socks[1] is the process's end.
	 * It is kept open so that poll() does not wake forever after the process has ended. */
	int socks[2];
	bool has_socks;
	pid_t pid;	  /* 0: it has not been started, or has ended */
	bool ends_itself; /* it is given time to do so */
	int error;	  /* -errno: it failed to start */
};

enum helper_id { HELPER_NVML, HELPER_PM };

/* Starts one from memory with these arguments, up to a NULL. Call this before tracing starts, so
 * that it is not traced. */
void helper__start(struct helper *p, enum helper_id id, const char *const args[]);
/* true: it has ended by itself since the last call, with that status, as of waitpid(). */
bool helper__has_ended(struct helper *p, int *status);
void helper__end(struct helper *p);

#endif /* TRACE_HELPER_H */
