/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spans that wait for the collector. There is a bound on their number, and one on their bytes; past
 * it the oldest goes of the process that has most of them, so that one that makes many leaves those
 * of others where they are.
 */
#ifndef OTLP_QUEUE_H
#define OTLP_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A usual one has 1.2 KiB. */
#define OTLP_SPAN_SZ 2048

struct otlp_sender;

struct otlp_item {
	struct otlp_item *prev, *next; /* in the order they came */
	struct otlp_item *later;       /* of the same process */
	struct otlp_sender *from;
	size_t head_len, len; /* of text: the process, then the span */
	bool done;
	char text[];
};

struct otlp_queue {
	struct otlp_item *first, *last;
	struct otlp_sender *by_pid;
	uint64_t cnt, bytes, max_cnt, max_bytes;
};

void otlp_queue__init(struct otlp_queue *q, uint64_t max_cnt);
void otlp_queue__clear(struct otlp_queue *q);
/* out_cnt, out_bytes: what is under way already counts, too. Returns how many were dropped for it;
 * it may be among them. */
unsigned otlp_queue__put(struct otlp_queue *q, uint32_t pid, const char *text, size_t head_len,
			 size_t len, uint64_t out_cnt, uint64_t out_bytes);
/* The oldest, to be freed; there is one. */
struct otlp_item *otlp_queue__pop(struct otlp_queue *q);

#endif /* OTLP_QUEUE_H */
