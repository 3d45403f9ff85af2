/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A libcuda that returns the requested handle (tests/faults/hang.c). */
#include <stdint.h>

uint64_t next_handle;

#define DO_NOT_INLINE __attribute__((noinline, noclone))

DO_NOT_INLINE int cuInit(unsigned flags)
{
	return (int)(flags >> 16);
}

DO_NOT_INLINE int cuModuleGetFunction(uint64_t *handle, uint64_t module, const char *name)
{
	*handle = next_handle;
	return name ? (int)(module >> 32) : 1;
}

DO_NOT_INLINE int cuLaunchKernel(uint64_t handle)
{
	return handle ? 0 : 1;
}

DO_NOT_INLINE int cuCtxSynchronize(void)
{
	static volatile int calls;

	calls++;
	return 0;
}
