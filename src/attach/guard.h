/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that stand stopped until their libcuda is attached (CT_PID_F_STOP_ON_LIB) must go on
 * when nobody is left who could tell them to. A small process of ours waits for the tracer's end,
 * however it comes, SIGKILL too.
 */
#ifndef ATTACH_GUARD_H
#define ATTACH_GUARD_H

#include "attach.h"

struct guard {
	pid_t pid; /* 0: none */
	int alive; /* the tracer's end of a pipe: the kernel closes it when the tracer dies */
};

/* Before the first process may be stopped. 0, or -errno after reporting. */
int guard__start(struct guard *g, const struct attach *a);
void guard__end(struct guard *g);

/* A process that was stopped for attaching goes on. */
void attach__go_on(struct attach *a, pid_t pid);
/* All of them do, and none is stopped from now on. */
void attach__go_on_all(struct attach *a);

#endif /* ATTACH_GUARD_H */
