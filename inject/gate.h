/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The gate in front of the driver, for a program that runs already: CUPTI may only be started while
 * no thread is in a call of the driver. Thunks count threads in such calls while the gate is armed.
 */
#ifndef INJECT_GATE_H
#define INJECT_GATE_H

#include "inject.h"

/* Starts CUPTI; runs in one thread, while all others are kept out of the driver. */
typedef enum ct_cupti_state gate_start_fn(void);

/* Waits for the moment, and lets a thread of the program call start(), or does so itself. Returns
 * CT_CUPTI_NONE if goes_on() became false before, CT_CUPTI_BUSY if there is no such moment (why:
 * receives the reason), or the result of start(). */
enum ct_cupti_state gate_run(struct process *p, gate_start_fn *start, bool (*goes_on)(void),
			     char *why, size_t why_sz);

/* The functions are hooked already. Returns false if none of them can pass the gate. */
bool gate_arm_again(struct process *p);
/* Stops CUPTI: calls stop() at such a moment, or after a while without. The functions are still
 * hooked.
 */
void gate_stop(struct process *p, gate_start_fn *stop);
/* In the thread that has called exit(): closes the gate for good. Returns when no thread is in the
 * driver and no more come, or after 0.25 s. They wait at their next call, until a second has
 * passed. Otherwise a thread that still launches may crash in libcudart, whose handler has cleared
 * its pointers to the driver's functions (observed with CUDA 13.0). CUPTI prolongs the exit. */
void gate_close(struct process *p);
/* Threads are not counted from now on. */
void gate_disarm(struct process *p);

/* gate_threads.c: returns whether no thread is in a call that began before the gate was armed. who:
 * receives the name of a thread that may be. */
bool gate_threads_are_out(struct process *p, char who[16]);

/* guard.c: fork() and loading libraries exclude each other, because a child of fork() inherits
 * locked locks of the loader and of CUPTI. */
bool guard_setup(void);
bool guard_take(uint64_t max_ns);
void guard_release(void);
/* Before a use of the loader. Returns whether the lock is to be released; false without handlers.
 */
bool guard_loader(void);

#endif /* INJECT_GATE_H */
