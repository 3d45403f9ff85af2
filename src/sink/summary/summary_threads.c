/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that make driver calls: how long they wait, and after how much work. */
#include "summary_priv.h"

#include <stdlib.h>

#include "model/call.h"

/* A wait after at most so much work, as the report's findings have it. */
#define SMALL_SUBMITS 4
#define SMALL_BYTES   (1 << 20)

void summary_threads_free(struct summary *s)
{
	struct thread_stat *t, *next;

	HASH_ITER (hh, s->threads, t, next) {
		HASH_DEL(s->threads, t);
		free(t);
	}
}

/* NULL: there are too many, or there is no memory. */
static struct thread_stat *thread_stat(struct summary *s, const struct trace_event *ev)
{
	uint64_t key = (uint64_t)ev->pid << 32 | ev->tid;
	struct thread_stat **recent = &s->recent_threads[hash_bits(key, SUMMARY_THREAD_BITS)];
	struct thread_stat *t = *recent;

	if (t && t->key == key)
		return t;
	HASH_FIND(hh, s->threads, &key, sizeof(key), t);
	if (!t) {
		if (HASH_COUNT(s->threads) < SUMMARY_THREADS_MAX)
			t = calloc(1, sizeof(*t));
		if (!t)
			goto full;
		t->key = key;
		HASH_ADD(hh, s->threads, key, sizeof(t->key), t);
		/* HASH_NONFATAL_OOM */
		if (!t->hh.tbl) {
			free(t);
			goto full;
		}
	}
	*recent = t;
	return t;
full:
	s->threads_full = true;
	return NULL;
}

void summary_top_call(struct summary *s, struct fn_stat *st, const struct trace_event *ev,
		      uint64_t ns)
{
	struct thread_stat *t = thread_stat(s, ev);

	st->top_ns += ns;
	if (ev->is_error)
		return;
	if (call_blocks(ev)) {
		s->blocked_cnt++;
		s->blocked_ns += ns;
		st->blocked_ns += ns;
		if (!t || !t->submit_cnt)
			return;
		s->work_wait_cnt++;
		s->small_wait_cnt +=
			t->submit_cnt <= SMALL_SUBMITS && t->submit_bytes < SMALL_BYTES;
		t->submit_cnt = t->submit_bytes = 0;
		return;
	}
	if (!call_submits(ev))
		return;
	if (!s->first_launch_ns && call_launches_any(ev))
		s->first_launch_ns = ev->start_ns;
	if (!t)
		return;
	t->submit_cnt++;
	if (ev->type == TYPE_TRANSFER && (ev->has & HAS_SIZE))
		t->submit_bytes += ev->size;
}
