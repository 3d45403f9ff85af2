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
 * All times of a trace are CLOCK_MONOTONIC as the kernel has it, which is that of BPF programs. In
 * a time namespace (time_namespaces(7)) programs see another one, which is a constant away.
 */

/* Finds out how far the clock of this process is away, before the first time is taken. false: it
 * cannot be read, and times of this process may be off. */
bool clock__open(void);
int64_t clock_own_offset(void);
/* The same for another process: what to take from its CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW. */
bool clock_offset_of(pid_t pid, int64_t *ns);
/* CLOCK_MONOTONIC or CLOCK_MONOTONIC_RAW of the machine. */
uint64_t machine_ns(clockid_t clock);
/* CLOCK_MONOTONIC of the machine. */
uint64_t now_ns(void);
/* What to add to it for the time since the epoch, as the clock is set now. */
int64_t epoch_ns(void);

#endif /* UTIL_CLOCK_H */
