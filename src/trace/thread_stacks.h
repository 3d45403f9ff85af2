/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where threads of a process are, while nobody is stopped. */
#ifndef TRACE_THREAD_STACKS_H
#define TRACE_THREAD_STACKS_H

#include "attach/find/unwind.h"

struct attach;

struct thread_stack {
	uint32_t tid;
	bool runs;	      /* it moves: at has the frames that it did not leave */
	struct call_chain at; /* cnt 0: nothing is certain */
	unsigned python_cnt;
	struct ct_python_frame python[CT_PYTHON_MAX]; /* innermost first; of one that waits */
};

/* Of cnt threads of one process, by their tid; up to CT_REGS_MAX. a: NULL without the BPF side;
 * then nothing is known of threads that run, nor of Python. python: the process's, or NULL. false:
 * none could be read. */
bool thread_stacks__read(struct attach *a, pid_t pid, const struct ct_python *python,
			 struct thread_stack *s, unsigned cnt);

#endif /* TRACE_THREAD_STACKS_H */
