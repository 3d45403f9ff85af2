/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cost TRACED PLAIN SYMBOL ROUNDS CALLS THREADS FRAMES KB: measures the overhead of tracing from
 * inside a program. TRACED and PLAIN are two copies of a library, of which only TRACED is probed.
 * In each round each of THREADS threads makes CALLS calls into one, then into the other, FRAMES
 * frames deep. It touches KB of memory before each call, so that caches are cold. Prints
 *
 *   calls N cost_ns N
 *
 * calls into TRACED, and the additional CPU time of the threads in them, compared with PLAIN. Time
 * in which other processes ran is not included.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int fn(long a, long b, long c, long d, long e, long f);

static fn *traced, *plain;
static int rounds, calls, frames, kb;
static _Atomic int64_t cost_ns;

static int64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Not a tail call, so that the frames exist. */
static __attribute__((noinline)) int deep(fn *f, int n)
{
	volatile int ret = n ? deep(f, n - 1) : f(1, 2, 3, 4, 5, 6);

	return ret;
}

static int64_t batch(fn *f, volatile char *memory)
{
	int64_t start = thread_ns();

	for (int i = 0; i < calls; i++) {
		for (int at = 0; at < kb << 10; at += 64)
			memory[at]++;
		deep(f, frames);
	}
	return thread_ns() - start;
}

static void *thread(void *arg)
{
	char *memory = calloc(kb + 1, 1024);

	(void)arg;
	/* The first calls are slower. */
	batch(plain, memory);
	for (int r = 0; r < rounds; r++)
		cost_ns -= batch(plain, memory) - batch(traced, memory);
	free(memory);
	return NULL;
}

static fn *open_fn(const char *path, const char *symbol)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	fn *f = lib ? (fn *)dlsym(lib, symbol) : NULL;

	if (!f) {
		fprintf(stderr, "cost: %s\n", dlerror());
		exit(1);
	}
	return f;
}

int main(int argc, char **argv)
{
	pthread_t ids[64];
	int threads;

	if (argc != 9)
		return 2;
	traced = open_fn(argv[1], argv[3]);
	plain = open_fn(argv[2], argv[3]);
	rounds = atoi(argv[4]);
	calls = atoi(argv[5]);
	threads = atoi(argv[6]);
	frames = atoi(argv[7]);
	kb = atoi(argv[8]);
	if (threads < 1 || threads > 64)
		return 2;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, thread, NULL))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("calls %lld cost_ns %lld\n", (long long)rounds * calls * threads,
	       (long long)cost_ns);
	return 0;
}
