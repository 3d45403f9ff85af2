/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The native methods of Late.java. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

static uint64_t (*launches)(void);
static int (*launch)(uintptr_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
		     uint32_t, uintptr_t, uintptr_t, uintptr_t);

void Java_Late_load(void *env, void *class)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	launch = dlsym(lib, "cuLaunchKernel");
	launches = dlsym(lib, "late_launches");
}

uint8_t Java_Late_call(void *env, void *class, uint32_t n, uint32_t k)
{
	uintptr_t f = n + 16ull * k;

	errno = n % 100;
	return !launch(f, n, k, 7, n % 1000 + 1, k, 3, n % 4096, f + 8, 0, 0) && errno == n % 100;
}

uint64_t Java_Late_launches(void *env, void *class)
{
	return launches();
}
