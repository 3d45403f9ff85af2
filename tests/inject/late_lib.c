/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A libcuda.so.1 for late.c: checks the eleven arguments of each launch, changes no register that a
 * caller may not rely on, and counts. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "pointers.h"

static uint64_t launches;

EXPORT(cuLaunchKernel)
__attribute__((visibility("hidden"), used)) int
real_cuLaunchKernel(uintptr_t f, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e,
		    uint32_t g, uint32_t shared, uintptr_t stream, uintptr_t params,
		    uintptr_t extra)
{
	if (f != a + 16ull * b || c != 7 || d != a % 1000 + 1 || e != b || g != 3 ||
	    shared != a % 4096 || stream != f + 8 || params || extra)
		abort();
	/* For test_calls_in_flight. */
	if (b != 1 && getenv("LATE_SLOW"))
		usleep(5000);
	__atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
	return 0;
}

EXPORT(cuInit)
__attribute__((visibility("hidden"), used)) int real_cuInit(unsigned flags)
{
	return 0;
}

__attribute__((visibility("default"))) uint64_t late_launches(void);
uint64_t late_launches(void)
{
	return __atomic_load_n(&launches, __ATOMIC_RELAXED);
}
