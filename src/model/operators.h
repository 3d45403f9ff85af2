/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: which of PyTorch's operators a thread is in, and what its allocator reports. Records say
 * in which operator they were made (bpf/torch.bpf.h): those that began later than that one are over
 * then. So an operator's end is that of what was seen next; what it did last is known, too.
 */
#ifndef MODEL_OPERATORS_H
#define MODEL_OPERATORS_H

#include "event.h"
#include "trace.h"

struct annotations;
struct proc;
struct raw_call;
struct thread;
struct torch_lib;

struct operator;
/* Of a thread, outermost first. */
struct thread_operators {
	struct operator* v;
	unsigned cnt, room;
};

/* Of a model. */
struct operators {
	void (*fn)(void *ctx, const struct trace_event *ev);
	void *ctx;
	bool on;
	uint64_t min_duration_ns;
	/* What a library's operators are called; NULL: not known. */
	const struct torch_lib *(*lib)(void *ctx, unsigned lib_id);
	void *lib_ctx;
	struct trace_torch cnt;
};

/* A call of any family: says in which operator it was made, and ends what is over. */
void operators__enter(struct operators *o, const struct raw_call *raw, const struct proc *p,
		      struct thread *t, struct trace_event *ev);
/* One of the family's, after that. */
void operators__call(struct operators *o, const struct annotations *m, const struct raw_call *raw,
		     const struct trace_event *ev, const struct proc *p, struct thread *t);
/* They will not be seen to end: the process has, or the trace. */
void operators__unfinished(struct operators *o, struct proc *p);
void thread_operators__free(struct thread *t);

#endif /* MODEL_OPERATORS_H */
