/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interface between the mock libcuda and the mock libcupti, which sets the
 * functions. */
#ifndef FAKE_TOOLS_H
#define FAKE_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_work { FAKE_KERNEL, FAKE_COPY, FAKE_MEMSET };

struct fake_tools {
	/* A call that is not nested in another begins; each has its own number. */
	void (*enter)(const char *symbol, uint32_t correlation);
	void (*leave)(uint32_t correlation);
	/* CLOCK_MONOTONIC, in nanoseconds; kind: CUpti_ActivityMemcpyKind; node: of a graph, or 0
	 */
	void (*work)(enum fake_work what, const char *name, uint64_t start, uint64_t end,
		     uint32_t correlation, uint32_t stream, uint64_t bytes, uint8_t kind,
		     uint64_t node);
	/* A context was created, or is about to be destroyed. */
	void (*context)(void *ctx, uint32_t device, bool is_new);
};

/* Exported by libcuda.so.1; NULL: no tool is loaded. */
extern const struct fake_tools *fake_tools;

/* Exported, too, for FAKE_CUPTI=strict. */
extern struct fake_public {
	uint32_t inside;       /* threads in calls, if counted */
	uint32_t entered;      /* calls so far, if counted */
	uint32_t instantiated; /* graphs so far */
} fake_public;

#endif /* FAKE_TOOLS_H */
