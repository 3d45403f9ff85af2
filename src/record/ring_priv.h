/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For ring.c and its test, which has rings of its own in memory. */
#ifndef RECORD_RING_PRIV_H
#define RECORD_RING_PRIV_H

#include "ring.h"

/* One ring, as the kernel lays it out: both positions only grow; data lies there twice, one behind
 * the other, so that no record is in two pieces. */
struct ring_part {
	unsigned long *consumer;
	const unsigned long *producer;
	const uint8_t *data;
	unsigned long pos;	/* what is before it was handed out */
	unsigned long told;	/* what the kernel knows of that: it may write there again */
	unsigned long head;	/* the producer's position when the rings were looked at */
	unsigned long fetched;	/* up to there it is in our caches, or comes */
	uint64_t busy_since_ns; /* of the record at pos, which is not complete; 0: it is */
	/* The record at pos. */
	const uint8_t *rec;
	size_t size;
	uint64_t key;
};

/* No rings yet. size: of each, a power of two. NULL: no memory. */
struct ring *ring__new(unsigned max_parts, size_t size, ring_fn fn, void *ctx);
void ring__add(struct ring *r, unsigned long *consumer, const unsigned long *producer,
	       const uint8_t *data);

#endif /* RECORD_RING_PRIV_H */
