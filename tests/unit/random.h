/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reproducible random numbers: xorshift64 (Marsaglia 2003). */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* Must not be 0. A test sets it for the same numbers whatever ran before. */
static uint64_t rnd_state = 88172645463325252ull;

static inline uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

#endif /* TESTS_RANDOM_H */
