/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What procs.c and procs_counts.c share. */
#ifndef DAEMON_PROCS_PRIV_H
#define DAEMON_PROCS_PRIV_H

#include "procs.h"

/* What a program has counted that has ended; 0: all that is there of this process id. */
void dproc__take_counts(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* What was read of it so far. */
void dproc__forget_counts(struct dproc *p);

#endif /* DAEMON_PROCS_PRIV_H */
