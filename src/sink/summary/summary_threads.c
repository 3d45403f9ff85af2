/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads that make driver calls: how long they wait, and after how much work. */
#include "summary_priv.h"

#include <stdlib.h>

#include "model/call.h"

/* Maximum work before a small wait; the same limits as in the report's findings. */
#define SMALL_SUBMITS 4
#define SMALL_BYTES   (1 << 20)

/* NULL: there are too many, or there is no memory. */
static struct thread_stat *thread_stat(struct summary *s, const struct trace_event *ev)
{
	uint64_t key = (uint64_t)ev->pid << 32 | ev->tid;
	struct thread_stat **recent = &s->recent_threads[hash_bits(key, SUMMARY_THREAD_BITS)];
	struct thread_stat *t = *recent;

	if (t && t->key == key)
		return t;
	t = thread_stat_table__find(&s->threads, &key);
	if (!t && hash_cnt(&s->threads) < SUMMARY_THREADS_MAX)
		t = thread_stat_table__new(&s->threads, &key);
	if (t)
		*recent = t;
	else
		s->threads_full = true;
	return t;
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
