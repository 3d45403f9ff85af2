/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "thread_overhead.h"

#define HASH_NONFATAL_OOM 1
#include <stdlib.h>
#include <uthash.h>

struct overhead_thread {
	uint32_t tid;
	uint64_t spent_ns; /* total so far */
	bool seen;
	UT_hash_handle hh;
};

struct look {
	struct thread_overhead *s;
	thread_overhead_fn fn;
	void *ctx;
};

static void look_at_thread(void *ctx, const struct seen_thread *t)
{
	struct look *l = ctx;
	struct overhead_thread *u;
	uint64_t since;

	HASH_FIND(hh, l->s->by_tid, &t->tid, sizeof(t->tid), u);
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return;
		u->tid = t->tid;
		HASH_ADD(hh, l->s->by_tid, tid, sizeof(u->tid), u);
	}
	/* The value shrank: another thread has the same number. */
	since = t->spent_ns >= u->spent_ns ? t->spent_ns - u->spent_ns : t->spent_ns;
	u->spent_ns = t->spent_ns;
	u->seen = true;
	l->fn(l->ctx, t, since);
}

static void forget(struct thread_overhead *s, struct overhead_thread *u)
{
	HASH_DEL(s->by_tid, u);
	free(u);
}

void thread_overhead__update(struct thread_overhead *s, struct sources *sources,
			     thread_overhead_fn fn, void *ctx)
{
	struct look l = {s, fn, ctx};
	struct overhead_thread *u, *next;

	sources__each_thread(sources, look_at_thread, &l);
	HASH_ITER (hh, s->by_tid, u, next) {
		if (!u->seen)
			forget(s, u);
		else
			u->seen = false;
	}
}

void thread_overhead__clear(struct thread_overhead *s)
{
	struct overhead_thread *u, *next;

	HASH_ITER (hh, s->by_tid, u, next)
		forget(s, u);
}
