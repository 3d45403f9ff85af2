/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maximum memory of the daemon: the sum of all limits, as if everything that programs, clients
 * and a collector can fill were full at once. */
#ifndef DAEMON_MEMORY_H
#define DAEMON_MEMORY_H

#include <stdint.h>

#include "config.h"
#include "util/limits.h"

/* MemoryMax of dist/cudatrace.service.in. */
#define MEMORY_UNIT (544ull << 20)

/* Maximum rows of the kernel's tables; more do not fit into memory. */
#define MEMORY_ROWS_MAX (1u << 24)
static inline uint32_t memory_rows(uint64_t wanted)
{
	return wanted < MEMORY_ROWS_MAX ? wanted : MEMORY_ROWS_MAX;
}

/* The library's part of known counts and tasks, for threads of processes that it traces. */
#define MEMORY_INPROC_PARTS 4
static inline uint32_t memory_inproc(const struct config *c, uint32_t rows)
{
	return c->trace.inject ? rows / MEMORY_INPROC_PARTS : 0;
}

/* Sets the limits of the tracer's tables that follow from the configuration. */
void memory__set_limits(const struct config *c, struct quotas *q);
/* Number of threads that format files, on this number of processors. */
unsigned memory__writers(const struct config *c, unsigned cpus);
/* Calls part for each, and returns the sum. cpus: processors with a ring. part may be NULL. */
uint64_t memory__max_bytes(const struct config *c, const struct quotas *q, unsigned cpus,
			   void (*part)(void *ctx, const char *what, uint64_t bytes), void *ctx);

#endif /* DAEMON_MEMORY_H */
