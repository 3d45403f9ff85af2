/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A libcuda that creates any requested number of allocations, kernels and streams at once.
 * -DMORE=FILE: additional exports. */
#include <stddef.h>
#include <stdint.h>

static uint64_t next_ptr = 0x7f0000000000, next_kernel = 0x1000;

int cuInit(unsigned flags)
{
	return 0;
}

int cuMemAlloc_v2(uint64_t *ptr, size_t size)
{
	*ptr = __sync_fetch_and_add(&next_ptr, 0x1000);
	return 0;
}

int cuMemFree_v2(uint64_t ptr)
{
	return 0;
}

int cuModuleGetFunction(uint64_t *fn, uint64_t module, const char *name)
{
	*fn = __sync_fetch_and_add(&next_kernel, 64);
	return 0;
}

int cuStreamBeginCapture_v2(uint64_t stream, int mode)
{
	return 0;
}

int cuLaunchKernel(uint64_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, uint64_t stream, void **params, void **extra)
{
	return 0;
}

int cuCtxSynchronize(void)
{
	return 0;
}

#ifdef MORE
#include MORE
#endif
