/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program whose main thread ends first: the program ends with its last thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int (*alloc)(unsigned long *, size_t);

static void at_end(void)
{
	puts("end");
}

static void *work(void *arg)
{
	unsigned long p;

	usleep(300000);
	for (int i = 0; i < 20; i++)
		alloc(&p, 1);
	puts("worked");
	return NULL;
}

int main(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*init)(unsigned) = dlsym(lib, "cuInit");
	int (*create)(void **, unsigned, int) = dlsym(lib, "cuCtxCreate_v2");
	pthread_t thread;

	alloc = dlsym(lib, "cuMemAlloc_v2");
	if (init(0) || create(&context, 0, 0) || atexit(at_end) ||
	    pthread_create(&thread, NULL, work, NULL))
		return 1;
	pthread_exit(NULL);
}
