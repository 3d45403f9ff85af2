/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* late_gpu THREADS: threads that launch kernels, and the main thread, which also replays a graph
 * that was instantiated at the start. For late attaches with --gpu-time. Ends at SIGTERM with
 * status 0. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef void *handle;

static int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		     handle, void **, void **);
static int (*stream_sync)(handle), (*set_ctx)(handle), (*replay)(handle, handle);
static handle lib, ctx, fn;
static volatile sig_atomic_t stop;

#define MUST(x)                                                                                    \
	do {                                                                                       \
		int err_ = (x);                                                                    \
		if (err_) {                                                                        \
			fprintf(stderr, "late_gpu: line %d: %d\n", __LINE__, err_);                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define FN(name) ((int (*)())dlsym(lib, name))

static void unit(handle stream, uint64_t mem, handle exec)
{
	struct timespec pause = {0, 300000};
	unsigned n = 4;
	void *params[] = {&mem, &n};

	for (int i = 0; i < 5; i++)
		MUST(launch(fn, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	for (int i = 0; exec && i < 2; i++)
		MUST(replay(exec, stream));
	MUST(stream_sync(stream));
	nanosleep(&pause, NULL);
}

static void *work(void *arg)
{
	handle stream, graph, exec = NULL;
	uint64_t mem;

	MUST(set_ctx(ctx));
	MUST(FN("cuStreamCreate")(&stream, 1));
	MUST(((int (*)(uint64_t *, size_t))FN("cuMemAlloc_v2"))(&mem, 4096));
	if (!arg) {
		void *params[] = {&mem, &mem};

		MUST(FN("cuStreamBeginCapture_v2")(stream, 0));
		for (int i = 0; i < 3; i++)
			MUST(launch(fn, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
		MUST(FN("cuStreamEndCapture")(stream, &graph));
		MUST(((int (*)(handle *, handle, unsigned long long))FN(
			"cuGraphInstantiateWithFlags"))(&exec, graph, 0));
		puts("ready");
		fflush(stdout);
	}
	while (!stop)
		unit(stream, mem, exec);
	return NULL;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

int main(int argc, char **argv)
{
	int cnt = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t threads[64];
	handle module;

	signal(SIGTERM, on_term);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	MUST(!lib);
	launch = (__typeof__(launch))dlsym(lib, "cuLaunchKernel");
	stream_sync = (__typeof__(stream_sync))dlsym(lib, "cuStreamSynchronize");
	set_ctx = (__typeof__(set_ctx))dlsym(lib, "cuCtxSetCurrent");
	replay = (__typeof__(replay))dlsym(lib, "cuGraphLaunch");
	MUST(FN("cuInit")(0));
	MUST(FN("cuDevicePrimaryCtxRetain")(&ctx, 0));
	MUST(set_ctx(ctx));
	MUST(FN("cuModuleLoadData")(&module, "late_gpu"));
	MUST(FN("cuModuleGetFunction")(&fn, module, "_Z6matmulPKfS0_Pfi"));
	for (intptr_t i = 1; i < cnt && i < 64; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	work(NULL);
	for (int i = 1; i < cnt && i < 64; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
