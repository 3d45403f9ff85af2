/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by procs.c and procs_counts.c. */
#ifndef DAEMON_PROCS_PRIV_H
#define DAEMON_PROCS_PRIV_H

#include "procs.h"

/* Takes the counts of a program that has ended; 0: only those that do not distinguish the programs
 * of a process. False: some remain, and p belongs in ps->ended. */
bool dproc__take_counts(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* Adds a program to ps->ended, which takes ownership of p (or NULL). */
void dprocs__add_ended(struct dprocs *ps, uint32_t pid, ct_generation generation, struct dproc *p);
/* Frees a process that is in no table. */
void dprocs__free_proc(struct dprocs *ps, struct dproc *p);
/* Drops its counts read so far. */
void dproc__forget_counts(struct dproc *p);

#endif /* DAEMON_PROCS_PRIV_H */
