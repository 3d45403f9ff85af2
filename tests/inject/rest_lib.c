/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A libcuda.so.1 with one function without its own pointer, as each driver has some:
 * cuMemGetAttribute. cuDeviceGetCount, which has a pointer, calls it, and it calls
 * cuDriverGetVersion.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "pointers.h"

#define FN(name, args) EXPORT(name) __attribute__((visibility("hidden"), used)) int real_##name args

int cuDriverGetVersion(int *version);
int cuMemGetAttribute(void *data, int attribute, uint64_t ptr);

FN(cuInit, (unsigned flags))
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;

	if (begin)
		begin();
	return flags != 0;
}

FN(cuDriverGetVersion, (int *version))
{
	*version = 13000;
	return 0;
}

__attribute__((noipa)) int cuMemGetAttribute(void *data, int attribute, uint64_t ptr)
{
	int version;

	return cuDriverGetVersion(&version);
}

FN(cuDeviceGetCount, (int *count))
{
	int version;

	*count = 1;
	return cuMemGetAttribute(&version, 1, 0);
}
