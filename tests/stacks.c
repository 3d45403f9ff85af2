/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stacks: a target whose calls come from known places. Built with frame pointers and without,
 * static and stripped by tests/suites/77-stack.sh.
 *
 *   stacks LIBCUDA [PLUGIN]   calls from main, from a thread, from PLUGIN's plugin_alloc()
 *   stacks LIBCUDA deep N     N calls of cuMemAlloc, each from another stack
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What follows the call keeps it from being a jump. */
#define KEEP __asm__ volatile("" ::: "memory")

typedef int (*fn_t)();

static void *lib;
fn_t mem_alloc, mem_free, launch;

static fn_t fn(const char *sym)
{
	fn_t p = (fn_t)dlsym(lib, sym);

	if (!p) {
		fprintf(stderr, "stacks: no %s\n", sym);
		exit(1);
	}
	return p;
}

__attribute__((noinline)) int inner(int what)
{
	uint64_t p = 0;
	int r;

	if (what)
		r = launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	else
		r = mem_alloc(&p, (size_t)4096);
	KEEP;
	return r;
}

__attribute__((noinline)) int outer(int what)
{
	int r = inner(what);

	KEEP;
	return r;
}

static void *thread(void *arg)
{
	(void)arg;
	outer(0);
	KEEP;
	return NULL;
}

/* The bits of path choose who calls whom. */
__attribute__((noinline)) int left(unsigned path, unsigned depth);
__attribute__((noinline)) int right(unsigned path, unsigned depth)
{
	int r;

	if (!depth)
		r = inner(0);
	else
		r = path & 1 ? left(path >> 1, depth - 1) : right(path >> 1, depth - 1);
	KEEP;
	return r;
}

__attribute__((noinline)) int left(unsigned path, unsigned depth)
{
	int r;

	if (!depth)
		r = inner(0);
	else
		r = path & 1 ? left(path >> 1, depth - 1) : right(path >> 1, depth - 1);
	KEEP;
	return r;
}

int main(int argc, char **argv)
{
	void *ctx;

	lib = dlopen(argv[1], RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "stacks: %s\n", dlerror());
		return 1;
	}
	mem_alloc = fn("cuMemAlloc_v2");
	mem_free = fn("cuMemFree_v2");
	launch = fn("cuLaunchKernel");
	if (fn("cuInit")(0) || fn("cuDevicePrimaryCtxRetain")(&ctx, 0) ||
	    fn("cuCtxSetCurrent")(ctx))
		return 1;
	if (argc > 3) {
		for (unsigned i = 0; i < (unsigned)atoi(argv[3]); i++)
			left(i, 16);
	} else {
		pthread_t t;

		outer(0);
		outer(1);
		pthread_create(&t, NULL, thread, NULL);
		pthread_join(t, NULL);
		if (argc > 2) {
			void *plugin = dlopen(argv[2], RTLD_NOW);
			int (*f)(fn_t) =
				plugin ? (int (*)(fn_t))dlsym(plugin, "plugin_alloc") : NULL;

			if (!f || f(mem_alloc))
				return 1;
		}
	}
	KEEP;
	/* The tracer reads the mappings of a process that is there still. */
	usleep(argc > 3 ? 0 : 300000);
	return 0;
}
