/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process's threads as text: state, what each waits for, native and Python stack. */
#ifndef TRACE_THREAD_LIST_H
#define TRACE_THREAD_LIST_H

#include <stdint.h>

struct out;
struct tracer;

/* Writes the threads of the process, the main thread first, for at most max_ns. Further ones, and
 * those beyond a limit, are counted in the last line. Returns the number of threads written; 0: the
 * process is gone, or its threads cannot be read. */
unsigned thread_list__print(struct tracer *t, uint32_t pid, uint64_t max_ns, struct out *o);

#endif /* TRACE_THREAD_LIST_H */
