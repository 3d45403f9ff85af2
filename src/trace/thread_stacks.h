/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stacks of a process's threads, read without stopping it. */
#ifndef TRACE_THREAD_STACKS_H
#define TRACE_THREAD_STACKS_H

#include "attach/find/unwind.h"

struct attach;

struct thread_stack {
	uint32_t tid;
	bool runs;	      /* it runs: at has only frames that it did not leave */
	struct call_chain at; /* cnt 0: nothing is certain */
	unsigned python_cnt;
	struct ct_python_frame python[CT_PYTHON_MAX]; /* innermost first; for a waiting thread */
};

/* Reads the stacks of cnt threads of one process, by tid; up to CT_REGS_MAX. a: NULL without the
 * BPF side; then running threads and Python frames are unknown. python: the process's, or NULL.
 * false: none could be read. */
bool thread_stacks__read(struct attach *a, pid_t pid, const struct ct_python *python,
			 struct thread_stack *s, unsigned cnt);
/* Reads the callers of a call in flight of one thread; sp: the stack pointer at its start. false:
 * they could not be read. */
bool thread_stacks__callers(struct attach *a, pid_t pid, uint32_t tid, uint64_t sp,
			    struct call_chain *out);

#endif /* TRACE_THREAD_STACKS_H */
