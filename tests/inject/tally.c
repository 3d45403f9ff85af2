/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tally FILE THREADS: threads that call cuDriverGetVersion until the process is killed. Each counts
 * its returned calls in a word of FILE, which outlives the process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int (*version)(int *);

static void *calls(void *arg)
{
	volatile uint64_t *returned = arg;
	int v;

	for (;;) {
		version(&v);
		++*returned;
		for (volatile int i = 0; i < 2000; i++)
			;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int threads = argc > 2 ? atoi(argv[2]) : 0;
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0644) : -1;
	uint64_t *words;
	pthread_t t;

	if (!lib || fd < 0 || threads < 1 || ftruncate(fd, 4096))
		return 2;
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*(void **)&version = dlsym(lib, "cuDriverGetVersion");
	if (words == MAP_FAILED || !version)
		return 2;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&t, NULL, calls, &words[i]))
			return 2;
	pause();
	return 0;
}
