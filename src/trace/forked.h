/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Without probes, a child of fork is known from its first call on. Until then it is found in /proc:
 * its environment has the tracer's socket, and it maps libcuda.
 */
#ifndef TRACE_FORKED_H
#define TRACE_FORKED_H

#include <sys/types.h>

/* Stores the first max of the user's processes with that socket. Returns how many there are. */
unsigned forked__find(const char *socket, pid_t *pids, unsigned max);

#endif /* TRACE_FORKED_H */
