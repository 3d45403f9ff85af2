/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "clock.h"

/* Readings that are no further apart are good. */
#define CLOSE_NS 20000

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Two are never taken at the same moment. */
int64_t epoch_ns(void)
{
	uint64_t before, wall, after;

	for (int i = 0; i < 8; i++) {
		before = now_ns();
		wall = clock_ns(CLOCK_REALTIME);
		after = now_ns();
		if (after - before < CLOSE_NS)
			break;
	}
	return (int64_t)(wall - (before + (after - before) / 2));
}
