/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User stacks: maps return addresses to modules and functions, and Python's frames to functions,
 * files and lines (python.h). Equal stacks of a process are stored once. If a process has too many,
 * all its stacks are dropped, so memory is limited. The only effect is that a stack is defined
 * twice.
 */
#ifndef MODEL_STACKS_H
#define MODEL_STACKS_H

#include "event.h"

#include "ct_record.h"

/* Limits per process: stacks, and frames in them. */
#define STACKS_MAX 16384
#define FRAMES_MAX 65536

/* State of a trace: files of modules, IDs. */
struct stacks;
struct quotas;
struct python_check; /* NULL: unknown */
struct stacks *stacks__new(struct quotas *q, enum ct_redact redact,
			   const struct python_check *check);
/* Call it after freeing all processes. */
void stacks__free(struct stacks *s);

/* State of a process: its mappings and stacks. */
struct proc_stacks;
void proc_stacks__free(struct proc_stacks *p);
/* Creates *p and reads the mappings now: the process may have ended when its stacks arrive. */
void proc_stacks__look(struct stacks *s, struct proc_stacks **p, uint32_t pid);
/* Makes the next stack a new one. */
void proc_stacks__forget(struct proc_stacks *p);
/* --python: returns whether to search the process for Python at this time.
 * proc_stacks__set_python() sets the result; NULL: no known Python. */
struct python_location;
bool proc_stacks__wants_python(const struct proc_stacks *p, uint64_t now);
void proc_stacks__set_python(struct stacks *s, struct proc_stacks **p, uint32_t pid,
			     const struct python_location *place, uint64_t now);
/* Copies the parent's Python to a new process. */
void proc_stacks__fork(struct stacks *s, struct proc_stacks **p, uint32_t pid,
		       const struct proc_stacks *parent, uint64_t now);
/* Stores the names of a code object. */
void proc_stacks__add_code(struct proc_stacks *p, const struct ct_python_code *rec);

/* Counts the result for a call's Python frames; is_requested: frames were requested for it. */
void stacks__count_python(struct stacks *s, const struct ct_call *c, bool is_requested);
struct trace_python;
void stacks__python(const struct stacks *s, struct trace_python *sum);

/* The stack data in a record. */
struct stack_source {
	const uint64_t *ips; /* return addresses, the call's own first */
	unsigned cnt;
	bool inside; /* ips[0] is an instruction; after proc_stacks__forget() */
	const struct ct_python_frame *python; /* innermost first */
	unsigned python_cnt;
};
/*
 * Returns the stack of these frames at ns (CLOCK_MONOTONIC): addresses up to the interpreter,
 * followed by Python's frames. NULL: out of memory. Valid until the next call.
 */
const struct stack *proc_stacks__get(struct stacks *s, struct proc_stacks **p, uint32_t pid,
				     const struct stack_source *from, uint64_t ns, bool *is_new);

#endif /* MODEL_STACKS_H */
