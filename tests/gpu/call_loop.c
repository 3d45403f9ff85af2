/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Measures the time of a call in its thread: cuDriverGetVersion, which does almost nothing. usage:
 * call_loop CALLS. It skips the first seconds, because as root uprobes are attached beside the
 * library then. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 9
#define WARM_MS 2500

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 100000;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;
	int (*call)(int *) = lib ? (int (*)(int *))dlsym(lib, "cuDriverGetVersion") : NULL;
	double took[BATCHES];
	int version;

	if (!init || !call || init(0))
		return 77;
	for (int i = 0; i < WARM_MS; i++) {
		call(&version);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	for (int b = 0; b < BATCHES; b++) {
		double begin = cpu_ns();

		for (long i = 0; i < calls; i++)
			call(&version);
		took[b] = (cpu_ns() - begin) / calls;
	}
	qsort(took, BATCHES, sizeof(took[0]), by_size);
	printf("%.1f\n", took[BATCHES / 2]);
	return 0;
}
