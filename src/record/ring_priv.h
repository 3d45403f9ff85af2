/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* For ring.c and its test, which uses its own rings in memory. */
#ifndef RECORD_RING_PRIV_H
#define RECORD_RING_PRIV_H

#include "ring.h"

/* One ring, in the kernel's layout: both positions only grow, and the data is mapped twice in
 * sequence, so that each record is contiguous. */
struct ring_part {
	unsigned long *consumer;
	const unsigned long *producer;
	const uint8_t *data;
	unsigned long pos;	/* everything before it was handed out */
	unsigned long released; /* position reported to the kernel, which may write before it again
				 */
	unsigned long head;	/* the producer's position at the last check */
	unsigned long fetched;	/* prefetched up to here */
	uint64_t busy_since_ns; /* since when the record at pos is incomplete; 0: it is complete */
	/* The record at pos. */
	const uint8_t *rec;
	size_t size;
	uint64_t key;
};

/* Creates it without rings. size: of each ring, a power of two. NULL: no memory. */
struct ring *ring__new(unsigned max_parts, size_t size, ring_fn fn, void *ctx);
void ring__add(struct ring *r, unsigned long *consumer, const unsigned long *producer,
	       const uint8_t *data);

#endif /* RECORD_RING_PRIV_H */
