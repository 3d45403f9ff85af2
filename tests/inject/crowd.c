/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* crowd CHILDREN THREADS CALLS: forks children whose threads make their first calls at the same
 * time; prints the total number of calls of cuCtxSynchronize. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*sync_ctx)(void);
static int calls;
static pthread_barrier_t all;

static void *thread_main(void *arg)
{
	pthread_barrier_wait(&all);
	for (int i = 0; i < calls; i++)
		sync_ctx();
	return arg;
}

static void be_child(int cnt)
{
	pthread_t t[64];

	pthread_barrier_init(&all, NULL, cnt);
	for (int i = 0; i < cnt; i++)
		if (pthread_create(&t[i], NULL, thread_main, NULL))
			_exit(1);
	for (int i = 0; i < cnt; i++)
		pthread_join(t[i], NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	int children = argc > 3 ? atoi(argv[1]) : 0, threads = argc > 3 ? atoi(argv[2]) : 0, status;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;

	sync_ctx = lib ? (int (*)(void))dlsym(lib, "cuCtxSynchronize") : NULL;
	if (!init || !sync_ctx || threads < 1 || threads > 64 || init(0))
		return 2;
	calls = atoi(argv[3]);
	for (int i = 0; i < children; i++) {
		if (!fork())
			be_child(threads);
		if (i % 4 == 3)
			wait(NULL);
	}
	while (wait(&status) > 0)
		if (status)
			return 3;
	printf("%ld\n", (long)children * threads * calls);
	return 0;
}
