/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Contexts of one process, which thread has which one, and when one goes with all that lives in it.
 */
#ifndef MODEL_CONTEXTS_H
#define MODEL_CONTEXTS_H

#include "event.h"

#include "util/quota.h"

#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct context {
	uint64_t handle;
	int device;
	unsigned refs;
	bool primary;
	UT_hash_handle hh;
};

struct ctx_thread;

struct contexts {
	struct context *by_handle;
	struct ctx_thread *threads, *last;
	/* Of contexts and threads; NULL: fixed bounds alone. */
	struct quota *quota;
	struct quota_share share;
	bool from_start; /* all of them were seen: set by cuInit, or by who knows better */
	bool begun;	 /* a call was seen that may come behind others */
};

/* A call of type init, memory or context that went well. Returns the handle of a context that went
 * with it, else 0. *unknown: one was released, and it is not known whether it went. */
uint64_t contexts__event(struct contexts *c, const struct trace_event *ev, bool *unknown);
/* Of a thread; 0: not known. */
uint64_t contexts__current(struct contexts *c, uint32_t tid);
/* The one that there is, if there is one; else 0. */
uint64_t contexts__only(const struct contexts *c);
/* NULL: not known. */
struct context *contexts__find(const struct contexts *c, uint64_t handle);
void contexts__clear(struct contexts *c);

#endif /* MODEL_CONTEXTS_H */
