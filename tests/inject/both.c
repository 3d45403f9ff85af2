/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * both [COMMAND]: makes calls until one costs as much as without a probe, then runs the command,
 * and makes some more. Prints the number of calls; exit status 1 if the probes stay.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A trap takes three times as long on any machine. */
#define NO_TRAP_NS 300
#define BATCH	   50
#define WAIT_S	   250

static int (*version)(int *);
static long cnt;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static uint64_t batch(void)
{
	uint64_t begin = now_ns();
	int v;

	for (int i = 0; i < BATCH; i++)
		version(&v);
	cnt += BATCH;
	return (now_ns() - begin) / BATCH;
}

static void calls_in_calls(void *lib, int n)
{
	int (*outer)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	int (*rest)(void *, int, uint64_t) =
		(int (*)(void *, int, uint64_t))dlsym(lib, "cuMemGetAttribute");
	int v;

	while (n-- > 0) {
		outer(&v);
		rest(&v, 1, 0);
	}
}

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;
	uint64_t end = now_ns() + WAIT_S * 1000000000ull;

	if (!init || init(0))
		return 2;
	version = (int (*)(int *))dlsym(lib, "cuDriverGetVersion");
	if (argc > 2)
		calls_in_calls(lib, atoi(argv[2]));
	while (batch() > NO_TRAP_NS && now_ns() < end)
		nanosleep(&pause, NULL);
	if (now_ns() >= end)
		return 1;
	if (argc > 2)
		calls_in_calls(lib, atoi(argv[2]));
	else if (argc > 1 && system(argv[1]))
		return 3;
	batch();
	printf("%ld\n", cnt);
	return 0;
}
