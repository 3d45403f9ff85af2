/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

/* A process with queued spans. */
struct otlp_sender {
	struct hash_link link;
	uint32_t pid;
	struct otlp_item *first, *last;
	uint64_t bytes;
};
HASH_TABLE_KEY(otlp_sender, pid);

static uint64_t size_of(const struct otlp_item *it)
{
	return sizeof(*it) + it->len;
}

void otlp_queue__init(struct otlp_queue *q, uint64_t max_cnt)
{
	*q = (struct otlp_queue){.max_cnt = max_cnt, .max_bytes = max_cnt * OTLP_SPAN_SZ};
}

/* Removes the oldest span of a process. */
static struct otlp_item *take(struct otlp_queue *q, struct otlp_sender *s)
{
	struct otlp_item *it = s->first;

	if (it->prev)
		it->prev->next = it->next;
	else
		q->first = it->next;
	if (it->next)
		it->next->prev = it->prev;
	else
		q->last = it->prev;
	s->first = it->later;
	s->bytes -= size_of(it);
	q->bytes -= size_of(it);
	q->cnt--;
	if (!s->first) {
		otlp_sender_table__del(&q->by_pid, s);
		free(s);
	}
	return it;
}

struct otlp_item *otlp_queue__pop(struct otlp_queue *q)
{
	return take(q, q->first->from);
}

void otlp_queue__clear(struct otlp_queue *q)
{
	while (q->first)
		free(otlp_queue__pop(q));
}

static struct otlp_sender *sender(struct otlp_queue *q, uint32_t pid)
{
	return otlp_sender_table__find(&q->by_pid, &pid)
		       ?: otlp_sender_table__new(&q->by_pid, &pid);
}

/* Among equals, the one that was added first. */
static struct otlp_sender *largest(struct otlp_queue *q)
{
	struct otlp_sender *most = q->by_pid.first;

	hash_each (s, &q->by_pid)
		if (s->bytes > most->bytes)
			most = s;
	return most;
}

unsigned otlp_queue__put(struct otlp_queue *q, uint32_t pid, const char *text, size_t head_len,
			 size_t len, uint64_t out_cnt, uint64_t out_bytes)
{
	struct otlp_item *it = malloc(sizeof(*it) + len);
	struct otlp_sender *s = it ? sender(q, pid) : NULL;
	unsigned dropped = 0;

	if (!s) {
		free(it);
		return 1;
	}
	*it = (struct otlp_item){.prev = q->last, .from = s, .head_len = head_len, .len = len};
	memcpy(it->text, text, len);
	if (q->last)
		q->last->next = it;
	else
		q->first = it;
	q->last = it;
	if (s->first)
		s->last->later = it;
	else
		s->first = it;
	s->last = it;
	s->bytes += size_of(it);
	q->bytes += size_of(it);
	q->cnt++;
	while (q->first && (q->cnt + out_cnt > q->max_cnt || q->bytes + out_bytes > q->max_bytes)) {
		free(take(q, largest(q)));
		dropped++;
	}
	return dropped;
}
