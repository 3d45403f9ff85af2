/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Clocks, in nanoseconds. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SEC_NS 1000000000ull

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC_NS + ts.tv_nsec;
}

/* CLOCK_MONOTONIC. */
uint64_t now_ns(void);
/* What to add to it for the time since the epoch, as the clock is set now. */
int64_t epoch_ns(void);

#endif /* UTIL_CLOCK_H */
