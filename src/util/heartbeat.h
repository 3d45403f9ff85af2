/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A counter in memory that child processes share: they detect whether the tracer's main thread
 * moves.
 */
#ifndef UTIL_HEARTBEAT_H
#define UTIL_HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

/* Before the fork. 0 or -errno. */
int heartbeat__start(void);
void heartbeat__beat(void);
uint64_t heartbeat__cnt(void);

/* A child acted while the main thread did not run. For the main thread: returns whether this
 * happened since its last call. */
void heartbeat__act(void);
bool heartbeat__has_acted(void);

#endif /* UTIL_HEARTBEAT_H */
