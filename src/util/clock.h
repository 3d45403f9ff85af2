/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Clocks, in nanoseconds. */
#ifndef UTIL_CLOCK_H
#define UTIL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define SEC_NS 1000000000ull

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC_NS + ts.tv_nsec;
}

/*
 * All times of a trace are CLOCK_MONOTONIC of the initial time namespace, which BPF programs also
 * use. In another time namespace (time_namespaces(7)) programs see it with a constant offset.
 */

/* Finds the clock offset of this process; to be called before the first time is taken. false: it
 * cannot be read, and times of this process may be wrong. */
bool clock__open(void);
int64_t clock_own_offset(void);
/* The offset of another process: what to subtract from its CLOCK_MONOTONIC and
 * CLOCK_MONOTONIC_RAW. */
bool clock_offset_of(pid_t pid, int64_t *ns);
/* CLOCK_MONOTONIC or CLOCK_MONOTONIC_RAW of the initial time namespace. */
uint64_t machine_ns(clockid_t clock);
/* CLOCK_MONOTONIC of the initial time namespace. */
uint64_t now_ns(void);
/* Returns the number to add to now_ns() for the time since the epoch, by the current setting of the
 * wall clock. */
int64_t epoch_ns(void);

#endif /* UTIL_CLOCK_H */
