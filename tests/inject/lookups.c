/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * lookups LIBRARY...: prints the nanoseconds of dlsym() for "cudaMalloc" in the last of many
 * libraries, the minimum of some rounds.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#define CALLS 2000

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	double least = 1e9;
	void *lib = NULL;

	for (int i = 1; i < argc; i++)
		lib = dlopen(argv[i], RTLD_NOW);
	if (!lib || !dlsym(lib, "cudaMalloc"))
		return 1;
	for (int round = 0; round < 20; round++) {
		double start = now_ns();

		for (int i = 0; i < CALLS; i++)
			dlsym(lib, "cudaMalloc");
		start = (now_ns() - start) / CALLS;
		if (start < least)
			least = start;
	}
	printf("%.0f\n", least);
	return 0;
}
