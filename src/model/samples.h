/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Python frames and PyTorch operators of calls that the library in the process records */
#ifndef SAMPLES_H
#define SAMPLES_H

#include "proc.h"

#include "ct_bpf.h"
#include "record/check.h"

/* A probe sent what it read when the call began. The call itself comes when it has returned. */
void samples__add(struct procs *ps, struct proc *p, struct thread *t,
		  const struct raw_call *sample);
/* Returns the call with what a probe sent for it; it is valid until the next samples__add(). all:
 * not only for a call that is marked as sampled. */
struct joined_call {
	struct raw_call raw;
	struct ct_call call; /* without words */
};
const struct raw_call *samples__join(struct thread *t, const struct raw_call *raw, bool all,
				     struct joined_call *to);
void thread_samples__free(struct procs *ps, struct proc *p, struct thread *t);

#endif /* SAMPLES_H */
