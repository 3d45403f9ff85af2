/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A libcuda whose handles, addresses and answers are marks (marks.h). */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "marks.h"

#define OUT_OF_MEMORY 2

int cuInit(unsigned flags)
{
	return 0;
}

int cuDeviceGetName(char *name, int len, int dev)
{
	strncpy(name, DEVICE_NAME, len);
	return 0;
}

int cuGetErrorName(int error, const char **text)
{
	*text = ERROR_TEXT;
	return 0;
}

int cuCtxCreate_v2(uint64_t *ctx, unsigned flags, int dev)
{
	*ctx = CONTEXT;
	return 0;
}

int cuMemAlloc_v2(uint64_t *ptr, size_t size)
{
	if (size == BIG_SIZE)
		return OUT_OF_MEMORY;
	*ptr = DEVICE_PTR;
	return 0;
}

int cuModuleLoad(uint64_t *module, const char *path)
{
	*module = MODULE;
	return 0;
}

int cuModuleLoadDataEx(uint64_t *module, const void *image, unsigned cnt, int *options,
		       void **values)
{
	*module = MODULE;
	return 0;
}

int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name)
{
	*function = FUNCTION;
	return 0;
}

int cuGetProcAddress_v2(const char *name, void **fn, int version, uint64_t flags, int *status)
{
	*fn = (void *)cuInit;
	*status = 0;
	return 0;
}

int cuStreamCreate(uint64_t *stream, unsigned flags)
{
	*stream = STREAM;
	return 0;
}

int cuStreamSynchronize(uint64_t stream)
{
	usleep(2000);
	return 0;
}

int cuLaunchKernel(uint64_t fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, uint64_t stream, void **params, void **extra)
{
	return 0;
}

int cuLaunchKernelEx(const void *config, uint64_t fn, void **params, void **extra)
{
	return 0;
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t size)
{
	if (size == STUCK_SIZE)
		(void)!write(1, "stuck\n", 6);
	while (size == STUCK_SIZE)
		pause();
	return 0;
}

int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t size)
{
	return 0;
}

int cuMemcpy2D_v2(const void *copy)
{
	return 0;
}

int cuLaunchHostFunc(uint64_t stream, void (*fn)(void *), void *data)
{
	fn(data);
	return 0;
}
