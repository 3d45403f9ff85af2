/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ring buffers that the BPF programs fill, one for each processor, as one stream of records.
 *
 * Records come in the order of the times that they were made at, and what was caused by something
 * comes behind it, whichever processors they were: the clock is read before the rings are looked
 * at, and only records up to that moment are taken. A call's record is there before the call
 * returns. So if it is not there yet when its ring is looked at, all that follows from it is later
 * than the clock was, and waits for the next look.
 */
#ifndef RECORD_RING_H
#define RECORD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

typedef void (*ring_fn)(void *ctx, const void *rec, size_t size);

/* Maps the rings behind these BPF maps' descriptors, each of size bytes. NULL on error, which it
 * reports. */
struct ring *ring__open(const int *map_fds, unsigned cnt, size_t size, ring_fn fn, void *ctx);
void ring__free(struct ring *r);
/* Readable when enough is waiting; for poll(). The programs wake a reader by amount, so drain by a
 * timer too. */
int ring__fd(const struct ring *r);
/* Before a drain: it is readable again when as much has come since. */
void ring__woken(const struct ring *r);
/* What is there? False: a record is not complete; ask again, for one of those behind it may have
 * caused others. It is not waited for long. */
bool ring__look(struct ring *r);
/* When the oldest that was found, and is still there, was sent. UINT64_MAX: there is none. */
uint64_t ring__next_ns(const struct ring *r);
/* Hands what was found and sent until until to fn, max records at most; returns how many. It stops
 * at one that is not complete: then ring__next_ns() is not later than until. */
size_t ring__take(struct ring *r, size_t max, uint64_t until);
/* Both, when there is nothing to be merged with: hands out at most max records. Returns how many;
 * less than max means that it is empty. */
size_t ring__drain(struct ring *r, size_t max);
/* Was one so full, since this was last asked, that records may have been dropped? */
bool ring__was_full(struct ring *r);

#endif /* RECORD_RING_H */
