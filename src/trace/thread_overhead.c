/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "thread_overhead.h"

#include <stdlib.h>

struct overhead_thread {
	struct hash_link link;
	uint32_t tid;
	uint64_t spent_ns; /* total so far */
	bool seen;
};
HASH_TABLE_KEY(overhead_thread, tid);

struct look {
	struct thread_overhead *s;
	thread_overhead_fn fn;
	void *ctx;
};

static void look_at_thread(void *ctx, const struct seen_thread *t)
{
	struct look *l = ctx;
	struct overhead_thread *u = overhead_thread_table__find(&l->s->by_tid, &t->tid);
	uint64_t since;

	u = u ?: overhead_thread_table__new(&l->s->by_tid, &t->tid);
	if (!u)
		return;
	/* The value shrank: another thread has the same number. */
	since = t->spent_ns >= u->spent_ns ? t->spent_ns - u->spent_ns : t->spent_ns;
	u->spent_ns = t->spent_ns;
	u->seen = true;
	l->fn(l->ctx, t, since);
}

void thread_overhead__update(struct thread_overhead *s, struct sources *sources,
			     thread_overhead_fn fn, void *ctx)
{
	struct look l = {s, fn, ctx};

	sources__each_thread(sources, look_at_thread, &l);
	hash_each (u, &s->by_tid) {
		if (!u->seen) {
			overhead_thread_table__del(&s->by_tid, u);
			free(u);
		} else {
			u->seen = false;
		}
	}
}

void thread_overhead__clear(struct thread_overhead *s)
{
	overhead_thread_table__free(&s->by_tid);
}
