/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by procs.c and procs_counts.c. */
#ifndef DAEMON_PROCS_PRIV_H
#define DAEMON_PROCS_PRIV_H

#include "procs.h"

/* Takes the counts of a program that has ended; 0: all counts of this process id. */
void dproc__take_counts(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* Drops its counts read so far. */
void dproc__forget_counts(struct dproc *p);

#endif /* DAEMON_PROCS_PRIV_H */
