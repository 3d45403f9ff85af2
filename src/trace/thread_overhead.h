/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tracing overhead of each thread since the last check. */
#ifndef TRACE_THREAD_OVERHEAD_H
#define TRACE_THREAD_OVERHEAD_H

#include "source.h"

HASH_TABLE_TYPE(overhead_thread);
struct thread_overhead {
	struct overhead_thread_table by_tid;
};

/* since_ns: for a new thread, its total overhead. */
typedef void (*thread_overhead_fn)(void *ctx, const struct seen_thread *t, uint64_t since_ns);
void thread_overhead__update(struct thread_overhead *s, struct sources *sources,
			     thread_overhead_fn fn, void *ctx);
void thread_overhead__clear(struct thread_overhead *s);

#endif /* TRACE_THREAD_OVERHEAD_H */
