/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stray.h"

#include <stdint.h>

/* Lock-free on x86-64 and arm64. */
static uint64_t noted;

void stray_note(int signo)
{
	__atomic_fetch_or(&noted, 1ull << signo, __ATOMIC_RELAXED);
}

bool stray_take(int signo)
{
	uint64_t bit = 1ull << signo;

	return __atomic_load_n(&noted, __ATOMIC_RELAXED) & bit &&
	       __atomic_fetch_and(&noted, ~bit, __ATOMIC_RELAXED) & bit;
}
