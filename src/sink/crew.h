/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads that put events into words while the one that gives them goes on. What an event points to
 * is copied; the lines come in the order of the events. For sinks whose ops say `cloned`. Copies
 * may wait for what GPUs executed for their calls (--gpu-time), in all outputs of these, and then
 * without threads, too.
 */
#ifndef SINK_CREW_H
#define SINK_CREW_H

#include "sink.h"

struct crew;

/* How many are worth it on a machine with so many processors: none where they would take one away
 * from what is traced. */
unsigned crew__size(unsigned cpus);
/* Before privileges are given up: each gives up its own, all of them. From now on s->out is theirs,
 * but between crew__wait() and the next event. NULL: no memory, no threads. */
struct crew *crew__new(struct sink *s, unsigned threads, bool wait);
/* May wait for room. */
void crew__event(struct crew *c, const struct trace_event *ev);
/* Until all that was given is in s->out. */
void crew__wait(struct crew *c);
/* Until all that need not wait for the GPU is there. */
void crew__tick(struct crew *c);
/* s->out->failed, as far as is known. */
bool crew__failed(const struct crew *c);
/* Waits, too. NULL is fine. */
void crew__free(struct crew *c);

#endif /* SINK_CREW_H */
