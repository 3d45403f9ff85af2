/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What each thread has spent on being traced since it was looked at last. */
#ifndef TRACE_SPENT_H
#define TRACE_SPENT_H

#include "source.h"

struct spent_thread;
struct spent {
	struct spent_thread *by_tid;
};

/* since_ns: of a thread that is new, all that it has spent. */
typedef void (*spent_fn)(void *ctx, const struct seen_thread *t, uint64_t since_ns);
void spent__look(struct spent *s, struct sources *sources, spent_fn fn, void *ctx);
void spent__clear(struct spent *s);

#endif /* TRACE_SPENT_H */
