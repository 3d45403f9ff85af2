// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Does what its words say: N allocates 1000 + N bytes, so that the call has a number; start and
 * stop are those of the driver's profiler; +TEXT pushes an NVTX range, - pops one; @N sleeps N ms;
 * &TEXT runs a range around call 50 in another thread. */
#include "client.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int (*alloc)(uint64_t *, size_t);

static void call(int n)
{
	uint64_t p;

	alloc(&p, 1000 + n);
}

static void *other(void *text)
{
	nvtxRangeId_t id = nvtxRangeStartA(text);

	call(50);
	nvtxRangeEnd(id);
	return NULL;
}

int main(int argc, char **argv)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	pthread_t thread;

	((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
	((int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
	((int (*)(void *))dlsym(lib, "cuCtxSetCurrent"))(ctx);
	alloc = (int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2");
	for (char **word = argv + 1; *word; word++) {
		if (isdigit(**word))
			call(atoi(*word));
		else if (**word == '+')
			nvtxRangePushA(*word + 1);
		else if (**word == '-')
			nvtxRangePop();
		else if (**word == '@')
			usleep(atoi(*word + 1) * 1000);
		else if (**word == '&')
			pthread_create(&thread, NULL, other, *word + 1) ||
				pthread_join(thread, NULL);
		else
			((int (*)(void))dlsym(lib, strcmp(*word, "stop") ? "cuProfilerStart"
									 : "cuProfilerStop"))();
	}
	return argc == 1;
}
