/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --torch: the PyTorch operators that a thread is in, and the reports of its allocator. Each record
 * contains the operator in which it was made (bpf/torch.bpf.h); operators that began later have
 * ended by then. So the end of an operator is the time of the next record outside it; the end of
 * the last event in it is known too.
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
/* The operators of a thread, outermost first. */
struct thread_operators {
	struct operator* v;
	unsigned cnt, room;
};

/* The operators of a model. */
struct operators {
	void (*fn)(void *ctx, const struct trace_event *ev);
	void *ctx;
	bool on;
	uint64_t min_duration_ns;
	/* Returns the operator names of a library; NULL: unknown. */
	const struct torch_lib *(*lib)(void *ctx, unsigned lib_id);
	void *lib_ctx;
	struct trace_torch cnt;
};

/* Handles a call of any family: sets its operator, and ends operators that are over. */
void operators__enter(struct operators *o, const struct raw_call *raw, const struct proc *p,
		      struct thread *t, struct trace_event *ev);
/* Handles a call of the torch family, after operators__enter(). */
void operators__call(struct operators *o, const struct annotations *m, const struct raw_call *raw,
		     const struct trace_event *ev, const struct proc *p, struct thread *t);
/* Delivers the operators whose end will not be recorded, because the process or the trace has
 * ended. */
void operators__unfinished(struct operators *o, struct proc *p);
void thread_operators__free(struct thread *t);

#endif /* MODEL_OPERATORS_H */
