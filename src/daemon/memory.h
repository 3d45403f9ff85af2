/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The most memory that the daemon can take: what all bounds add up to, when everything that a
 * program, a client and a collector can fill is full at once. */
#ifndef DAEMON_MEMORY_H
#define DAEMON_MEMORY_H

#include <stdint.h>

#include "config.h"
#include "util/quota.h"

/* MemoryMax of dist/cudatrace.service.in. */
#define MEMORY_UNIT (544ull << 20)

/* Rows of the kernel's tables; beyond that there is no memory. */
#define MEMORY_ROWS_MAX (1u << 24)
static inline uint32_t memory_rows(uint64_t wanted)
{
	return wanted < MEMORY_ROWS_MAX ? wanted : MEMORY_ROWS_MAX;
}

/* Of counts and tasks that may be known: for threads that libraries in the processes see. */
#define MEMORY_INPROC_PARTS 4
static inline uint32_t memory_inproc(const struct config *c, uint32_t rows)
{
	return c->trace.inject ? rows / MEMORY_INPROC_PARTS : 0;
}

/* Bounds of the tracer's tables that follow from the configuration. */
void memory__bound(const struct config *c, struct quotas *q);
/* Threads that write files, on so many processors. */
unsigned memory__writers(const struct config *c, unsigned cpus);
/* Calls part for each, and returns the sum. cpus: that have a ring. part may be NULL. */
uint64_t memory__most(const struct config *c, const struct quotas *q, unsigned cpus,
		      void (*part)(void *ctx, const char *what, uint64_t bytes), void *ctx);

#endif /* DAEMON_MEMORY_H */
