/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User stacks: from return addresses to modules and functions. The same stack in the same process
 * is the same one; each process's are dropped and begun anew when they are too many, so memory is
 * bounded, and nothing is lost by it but that a stack is defined twice.
 */
#ifndef MODEL_STACKS_H
#define MODEL_STACKS_H

#include "event.h"

/* Stacks of one process, and frames in them. */
#define STACKS_MAX 16384
#define FRAMES_MAX 65536

/* Of a trace: files that modules come from, ids. */
struct stacks;
struct quotas;
struct stacks *stacks__new(struct quotas *q, enum ct_hide hide);
/* After all processes. */
void stacks__free(struct stacks *s);

/* Of a process: what is mapped where, its stacks. */
struct proc_stacks;
void proc_stacks__free(struct proc_stacks *p);
/* Makes *p, and reads what the process has mapped: it may not live when its stacks come. */
void proc_stacks__look(struct stacks *s, struct proc_stacks **p, uint32_t pid);
/* The stack of these addresses at ns (CLOCK_MONOTONIC); NULL when memory is out. It lives until the
 * next call. */
const struct stack *proc_stacks__get(struct stacks *s, struct proc_stacks **p, uint32_t pid,
				     const uint64_t *ips, unsigned cnt, uint64_t ns, bool *is_new);

#endif /* MODEL_STACKS_H */
