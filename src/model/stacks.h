/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * User stacks: from return addresses to modules and functions, and from Python's frames to its
 * functions, files and lines (python.h). The same stack in the same process
 * is the same one; each process's are dropped and begun anew when they are too many, so memory is
 * bounded, and nothing is lost by it but that a stack is defined twice.
 */
#ifndef MODEL_STACKS_H
#define MODEL_STACKS_H

#include "event.h"

#include "ct_record.h"

/* Stacks of one process, and frames in them. */
#define STACKS_MAX 16384
#define FRAMES_MAX 65536

/* Of a trace: files that modules come from, ids. */
struct stacks;
struct quotas;
struct python_check; /* NULL: nobody knows */
struct stacks *stacks__new(struct quotas *q, enum ct_redact redact,
			   const struct python_check *check);
/* After all processes. */
void stacks__free(struct stacks *s);

/* Of a process: what is mapped where, its stacks. */
struct proc_stacks;
void proc_stacks__free(struct proc_stacks *p);
/* Makes *p, and reads what the process has mapped: it may not live when its stacks come. */
void proc_stacks__look(struct stacks *s, struct proc_stacks **p, uint32_t pid);
/* The next is a new one, whichever it is. */
void proc_stacks__forget(struct proc_stacks *p);
/* --python: is there to be looked for a Python in it, at this time? What was found; NULL: nothing
 * that is known. */
struct python_location;
bool proc_stacks__wants_python(const struct proc_stacks *p, uint64_t now);
void proc_stacks__set_python(struct stacks *s, struct proc_stacks **p, uint32_t pid,
			     const struct python_location *place, uint64_t now);
/* A process was made by another: it has its Python. */
void proc_stacks__fork(struct stacks *s, struct proc_stacks **p, uint32_t pid,
		       const struct proc_stacks *parent, uint64_t now);
/* What one of its code objects is called. */
void proc_stacks__told(struct proc_stacks *p, const struct ct_python_code *rec);

/* What became of the frames of a call; is_asked: it was to have them. */
void stacks__count_python(struct stacks *s, const struct ct_call *c, bool is_asked);
struct trace_python;
void stacks__python(const struct stacks *s, struct trace_python *sum);

/* What a record has of a stack. */
struct stack_source {
	const uint64_t *ips; /* return addresses, the call's own first */
	unsigned cnt;
	bool inside; /* the first is an instruction instead; after proc_stacks__forget() */
	const struct ct_python_frame *python; /* innermost first */
	unsigned python_cnt;
};
/*
 * The stack of these frames at ns (CLOCK_MONOTONIC): addresses up to the interpreter, and Python's
 * frames behind them; NULL when memory is out. It lives until the next call.
 */
const struct stack *proc_stacks__get(struct stacks *s, struct proc_stacks **p, uint32_t pid,
				     const struct stack_source *from, uint64_t ns, bool *is_new);

#endif /* MODEL_STACKS_H */
