/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contexts of one process, the current one of each thread, and when one is destroyed with all its
 * resources. */
#ifndef MODEL_CONTEXTS_H
#define MODEL_CONTEXTS_H

#include "event.h"

#include "util/hash_table.h"
#include "util/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct context {
	struct hash_link link;
	uint64_t handle;
	int device;
	unsigned refs;
	bool primary;
};
HASH_TABLE(context, handle);

HASH_TABLE_TYPE(ctx_thread);

struct contexts {
	struct context_table by_handle;
	struct ctx_thread_table threads;
	struct ctx_thread *last;
	/* Counts contexts and threads; NULL: only the fixed limits apply. */
	struct quota *quota;
	struct quota_share share;
	bool from_start; /* all contexts are known: set by cuInit, or by a caller */
	bool begun;	 /* a call was recorded that others may have preceded */
};

/* Updates the contexts from a successful call of type init, memory or context. Returns the handle
 * of the context that it destroyed, else 0. Sets *unknown if it released one and it is unknown
 * whether that was the last reference. */
uint64_t contexts__event(struct contexts *c, const struct trace_event *ev, bool *unknown);
/* Returns what it will return for this successful call, and changes nothing. */
uint64_t contexts__ended_by(const struct contexts *c, const struct trace_event *ev);
/* Returns the current context of a thread; 0 if unknown. */
uint64_t contexts__current(struct contexts *c, uint32_t tid);
/* Returns the context if there is exactly one; else 0. */
uint64_t contexts__only(const struct contexts *c);
/* Returns NULL if unknown. */
struct context *contexts__find(const struct contexts *c, uint64_t handle);
void contexts__clear(struct contexts *c);

#endif /* MODEL_CONTEXTS_H */
