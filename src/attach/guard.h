/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Continues stopped processes when the tracer dies, even by SIGKILL, or does not run for three
 * seconds. Processes are stopped until their libcuda is attached (CT_PID_F_STOP_ON_LIB). A small
 * process of ours waits.
 */
#ifndef ATTACH_GUARD_H
#define ATTACH_GUARD_H

#include "attach.h"

struct guard {
	pid_t pid; /* 0: none */
	int alive; /* the tracer's end of a pipe: the kernel closes it when the tracer dies */
};

/* Call before any process may be stopped. sandbox: with only the needed privileges. Returns 0, or
 * -errno after reporting. */
int guard__start(struct guard *g, const struct attach *a, bool sandbox);
void guard__end(struct guard *g);

/* Continues a process that was stopped for attaching. */
void attach__go_on(struct attach *a, pid_t pid);
/* Continues all of them; from now on, none is stopped. */
void attach__go_on_all(struct attach *a);

#endif /* ATTACH_GUARD_H */
