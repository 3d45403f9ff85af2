/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * load LIBRARY THREADS PAUSE_US: allocates and frees in THREADS threads, PAUSE_US apart, until
 * SIGTERM, and checks each result; then prints "good N bad N".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*fn_t)();

static fn_t get, put, set_current;
static void *ctx;
static long pause_us;
static volatile sig_atomic_t stop;
static uint64_t good, bad;

static void *work(void *arg)
{
	size_t size = 4096 * ((long)arg + 1);

	set_current(ctx);
	while (!stop) {
		uint64_t a = 0, b = 0;

		if (!get(&a, size) && !get(&b, size) && a && b && a != b && !put(a) && !put(b) &&
		    put(b))
			__atomic_add_fetch(&good, 5, __ATOMIC_RELAXED);
		else
			__atomic_add_fetch(&bad, 1, __ATOMIC_RELAXED);
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

int main(int argc, char **argv)
{
	int cnt = argc > 3 ? atoi(argv[2]) : 0;
	void *lib = cnt ? dlopen(argv[1], RTLD_NOW) : NULL;
	pthread_t t[64];

	if (!lib || cnt > 64)
		return 1;
	pause_us = atol(argv[3]);
	get = (fn_t)dlsym(lib, "cuMemAlloc_v2");
	put = (fn_t)dlsym(lib, "cuMemFree_v2");
	set_current = (fn_t)dlsym(lib, "cuCtxSetCurrent");
	if (((fn_t)dlsym(lib, "cuInit"))(0) ||
	    ((fn_t)dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0))
		return 1;
	signal(SIGTERM, on_term);
	for (long i = 0; i < cnt; i++)
		if (pthread_create(&t[i], NULL, work, (void *)i))
			return 1;
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < cnt; i++)
		pthread_join(t[i], NULL);
	printf("good %llu bad %llu\n", (unsigned long long)good, (unsigned long long)bad);
	return bad != 0;
}
