/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* leaver clears|joins|locks: ends by exit() while threads launch kernels. A handler that was
 * registered before cuInit() clears its pointer to a function of the driver, as libcudart does, and
 * takes 0.1 s more; or it ends the threads, and joins them; or it waits for the lock that each of
 * them has during its calls. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *handle;

static int (*volatile launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, handle, void **, void **);
static volatile int stop, joins, locks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle lib, ctx, fn;
#define THREADS 8
static pthread_t threads[THREADS];

#define FN(name) ((int (*)())dlsym(lib, name))

static void *work(void *arg)
{
	uint64_t mem = 0;
	unsigned n = 4;
	void *params[] = {&mem, &n};

	FN("cuCtxSetCurrent")
	(ctx);
	while (!stop) {
		if (locks)
			pthread_mutex_lock(&lock);
		launch(fn, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
		if (locks)
			pthread_mutex_unlock(&lock);
		usleep(20);
	}
	return arg;
}

static void at_exit(void)
{
	if (joins) {
		stop = 1;
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		printf("joined\n");
		return;
	}
	if (locks) {
		pthread_mutex_lock(&lock);
		return;
	}
	launch = NULL;
	usleep(100000);
}

int main(int argc, char **argv)
{
	handle module;

	joins = argc > 1 && !strcmp(argv[1], "joins");
	locks = argc > 1 && !strcmp(argv[1], "locks");
	atexit(at_exit);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib || FN("cuInit")(0) || FN("cuDevicePrimaryCtxRetain")(&ctx, 0) ||
	    FN("cuCtxSetCurrent")(ctx) || FN("cuModuleLoadData")(&module, "late_gpu") ||
	    FN("cuModuleGetFunction")(&fn, module, "_Z6matmulPKfS0_Pfi"))
		return 1;
	launch = (__typeof__(launch))dlsym(lib, "cuLaunchKernel");
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	usleep(300000);
	exit(0);
}
