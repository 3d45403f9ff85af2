/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spans queued for the collector, limited in number and in bytes. Past a limit, the oldest span of
 * the process with the most is dropped. So a process with many spans does not displace those of
 * others.
 */
#ifndef OTLP_QUEUE_H
#define OTLP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/hash_table.h"

/* A typical span has 1.2 KiB. */
#define OTLP_SPAN_SZ 2048

HASH_TABLE_TYPE(otlp_sender);

struct otlp_item {
	struct otlp_item *prev, *next; /* in order of arrival */
	struct otlp_item *later;       /* next of the same process */
	struct otlp_sender *from;
	size_t head_len, len; /* of text: the process, then the span */
	bool done;
	char text[];
};

struct otlp_queue {
	struct otlp_item *first, *last;
	struct otlp_sender_table by_pid;
	uint64_t cnt, bytes, max_cnt, max_bytes;
};

void otlp_queue__init(struct otlp_queue *q, uint64_t max_cnt);
void otlp_queue__clear(struct otlp_queue *q);
/* out_cnt, out_bytes: spans being sent, which count too. Returns how many were dropped for it,
 * possibly including the new one. */
unsigned otlp_queue__put(struct otlp_queue *q, uint32_t pid, const char *text, size_t head_len,
			 size_t len, uint64_t out_cnt, uint64_t out_bytes);
/* Removes the oldest span, to be freed by the caller; the queue must not be empty. */
struct otlp_item *otlp_queue__pop(struct otlp_queue *q);

#endif /* OTLP_QUEUE_H */
