/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ring buffers filled by the BPF programs, one per processor, as one stream of records.
 *
 * Records come in the order of their times, and an effect comes after its cause, even across
 * processors. For that, the clock is read before the rings are read, and only records up to
 * that time are taken. A call's record is in its ring before the call returns. So if a check of
 * that ring does not find it, all its effects are later than the clock reading, and wait for the
 * next check.
 */
#ifndef RECORD_RING_H
#define RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

typedef void (*ring_fn)(void *ctx, const void *rec, size_t size);

/* Maps the rings of these BPF maps' descriptors, each of size bytes. NULL on error, which it
 * reports. */
struct ring *ring__open(const int *map_fds, unsigned cnt, size_t size, ring_fn fn, void *ctx);
void ring__free(struct ring *r);
/* Readable when enough records wait; for poll(). The programs wake a reader by amount, so drain by
 * a timer too. */
int ring__fd(const struct ring *r);
/* To be called before a drain: the descriptor becomes readable again when as much has come
 * since. */
void ring__woken(const struct ring *r);
/* Finds the available records. False: one is incomplete; call again, because records after it may
 * have caused others. This ends soon. */
bool ring__look(struct ring *r);
/* The time of the oldest record found and not yet taken. UINT64_MAX: there is none. */
uint64_t ring__next_ns(const struct ring *r);
/* Passes records that were found and sent by `until` to fn, at most max; returns their number. It
 * stops at an incomplete record: then ring__next_ns() is not later than until. */
size_t ring__take(struct ring *r, size_t max, uint64_t until);
/* Both steps, when there is nothing to merge with: hands out at most max records. Returns their
 * number; less than max means that it is empty. */
size_t ring__drain(struct ring *r, size_t max);
/* Returns whether a ring was so full since the last call that records may have been dropped. */
bool ring__was_full(struct ring *r);

#endif /* RECORD_RING_H */
