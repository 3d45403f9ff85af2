/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Without probes, finds processes of the command that map libcuda and are not traced. They have not
 * loaded the in-process library (a cleared environment, static programs), or it cannot report that
 * it is not connected (a sandbox, a seccomp filter). They are found in /proc, so one that ends
 * within some 50 ms after it has mapped libcuda may be overlooked, and so may one whose parent has
 * ended before it was seen.
 */
#ifndef TRACE_UNREACHED_H
#define TRACE_UNREACHED_H

#include "model/event.h"

#include <stdint.h>
#include <sys/types.h>

struct unreached;

/* Receives a `library` event for each such program, once. */
typedef void (*unreached_fn)(void *ctx, const struct trace_event *ev);

/* command: the first process. Returns NULL if there is no memory. */
struct unreached *unreached__open(pid_t command, unreached_fn fn, void *ctx);
/* To be called at unreached__next_ns(). Uses 2 % of a processor at most, and 4 ms at once unless
 * one process takes longer. */
void unreached__look(struct unreached *u, uint64_t now);
/* Returns when unreached__look() is due: at least every 50 ms, more often while there is much to
 * check. u may be NULL: 0. */
uint64_t unreached__next_ns(const struct unreached *u);
void unreached__free(struct unreached *u);

#endif /* TRACE_UNREACHED_H */
