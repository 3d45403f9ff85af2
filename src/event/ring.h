/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring buffer that the BPF programs fill. */
#ifndef EVENT_RING_H
#define EVENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

typedef void (*ring_fn)(void *ctx, const void *rec, size_t size);

/* Maps the ring behind a BPF map's descriptor. NULL on error, which it reports. */
struct ring *ring__open(int map_fd, ring_fn fn, void *ctx);
void ring__free(struct ring *r);
/* Readable when enough is waiting; for poll(). The programs wake a reader by amount, so drain by a
 * timer too. */
int ring__fd(const struct ring *r);
/* Hands at most max records to fn. Returns how many; less than max means that it is empty. */
size_t ring__drain(struct ring *r, size_t max);
/* Was it so full, since this was last asked, that records may have been dropped? */
bool ring__was_full(struct ring *r);

#endif /* EVENT_RING_H */
