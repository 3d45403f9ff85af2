/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds forked children without probes. Such a child is known from its first call on.
 * Until then it is found in /proc: its environment has the tracer's socket, and it maps libcuda.
 */
#ifndef TRACE_FORKED_H
#define TRACE_FORKED_H

#include <sys/types.h>

/* Stores the first max of the user's processes with that socket. Returns how many there are. */
unsigned forked__find(const char *socket, pid_t *pids, unsigned max);
/* Returns 1 if the process was started with a variable whose value contains part, 0 if not, or an
 * error of reader__copy(). name: with its '='. */
int forked__has_variable(pid_t pid, const char *name, const char *part);

#endif /* TRACE_FORKED_H */
