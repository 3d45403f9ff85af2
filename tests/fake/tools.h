/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the stand-in libcuda tells the stand-in libcupti, which puts its functions here. */
#ifndef FAKE_TOOLS_H
#define FAKE_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_work { FAKE_KERNEL, FAKE_COPY, FAKE_MEMSET };

struct fake_tools {
	/* A call of the API that is in no other begins; a number of its own for each. */
	void (*enter)(const char *symbol, uint32_t correlation);
	void (*leave)(uint32_t correlation);
	/* CLOCK_MONOTONIC, in nanoseconds; kind: CUpti_ActivityMemcpyKind; node: of a graph, or 0
	 */
	void (*work)(enum fake_work what, const char *name, uint64_t start, uint64_t end,
		     uint32_t correlation, uint32_t stream, uint64_t bytes, uint8_t kind,
		     uint64_t node);
};

/* Exported by libcuda.so.1; NULL: nobody asks. */
extern const struct fake_tools *fake_tools;

#endif /* FAKE_TOOLS_H */
