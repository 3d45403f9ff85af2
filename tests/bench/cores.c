/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cores LIBRARY threads|processes COUNT CALLS: COUNT of them make CALLS calls each, back to back,
 * from the same moment on. Prints "MEAN MAX": nanoseconds per call, on average and for the slowest,
 * and "TOTAL", the seconds from the first to the last.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WORKERS 512
#define WARM_CALLS  100

struct shared {
	pthread_barrier_t start;
	uint64_t from[MAX_WORKERS], to[MAX_WORKERS];
};

static struct shared *shared;
static int (*fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static long calls;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void *work(void *arg)
{
	long me = (long)arg;

	for (long i = 0; i < WARM_CALLS; i++)
		fn(1, 2, 3, 4, 5, 6);
	pthread_barrier_wait(&shared->start);
	shared->from[me] = now_ns();
	for (long i = 0; i < calls - WARM_CALLS; i++)
		fn(1, 2, 3, 4, 5, 6);
	shared->to[me] = now_ns();
	return NULL;
}

static void run_threads(long cnt)
{
	pthread_t threads[MAX_WORKERS];

	for (long i = 0; i < cnt; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			exit(1);
	for (long i = 0; i < cnt; i++)
		pthread_join(threads[i], NULL);
}

static void run_processes(long cnt)
{
	for (long i = 0; i < cnt; i++) {
		pid_t pid = fork();

		if (pid < 0)
			exit(1);
		if (!pid) {
			work((void *)i);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	long cnt = argc == 5 ? atol(argv[3]) : 0;
	uint64_t first = UINT64_MAX, last = 0;
	double sum = 0, max = 0;
	pthread_barrierattr_t attr;
	void *lib;

	calls = argc == 5 ? atol(argv[4]) : 0;
	if (cnt < 1 || cnt > MAX_WORKERS || calls <= WARM_CALLS) {
		fprintf(stderr, "usage: cores LIBRARY threads|processes COUNT CALLS\n");
		return 2;
	}
	lib = dlopen(argv[1], RTLD_NOW);
	fn = lib ? dlsym(lib, "cuLaunchKernel") : NULL;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (!fn || shared == MAP_FAILED) {
		fprintf(stderr, "cores: no %s\n", argv[1]);
		return 1;
	}
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->start, &attr, cnt);
	if (!strcmp(argv[2], "threads"))
		run_threads(cnt);
	else
		run_processes(cnt);
	for (long i = 0; i < cnt; i++) {
		double ns = (double)(shared->to[i] - shared->from[i]) / (calls - WARM_CALLS);

		sum += ns;
		max = ns > max ? ns : max;
		first = shared->from[i] < first ? shared->from[i] : first;
		last = shared->to[i] > last ? shared->to[i] : last;
	}
	printf("%.1f %.1f %.6f\n", sum / cnt, max, (last - first) / 1e9);
	return 0;
}
