/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded, it has its own dlsym(), like libraries that limit a program's GPU memory (HAMi):
 * programs get its function instead of the driver's, and a name that exists only there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

static int (*real_count)(int *);
static int limited;

static int count(int *devices)
{
	limited++;
	return real_count(devices);
}

/* Not an export: only this dlsym() has it. */
static const char limiter_name[] = "limiter";

void *dlsym(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

	if (!real)
		real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real)
		real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!strcmp(name, "limiter_name"))
		return limited ? (void *)limiter_name : NULL;
	if (strcmp(name, "cuDeviceGetCount"))
		return real(handle, name);
	real_count = real(handle, name);
	return real_count ? (void *)count : NULL;
}
