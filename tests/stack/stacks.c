/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stacks: a target whose calls come from known places. Built with frame pointers and without,
 * static and stripped by tests/e2e/test_stack.py.
 *
 *   stacks LIBCUDA [PLUGIN]   calls from main, from a thread, from PLUGIN's plugin_alloc()
 *   stacks LIBCUDA PLUGIN late
 *                             a call from main, and when the tracer sleeps again one from PLUGIN
 *   stacks LIBCUDA nest       a call that makes another
 *   stacks LIBCUDA sync       three waits from one place, one from another
 *   stacks LIBCUDA deep N [D] N calls of cuMemAlloc, D frames deep: each from another stack if D is
 * 16
 *
 * The tracer reads the mappings of a process that is there still: so it stays until its calls are
 * in the trace $STACKS_TRACE (JSONL).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The statement after the call prevents a tail call. */
#define KEEP __asm__ volatile("" ::: "memory")

typedef int (*fn_t)();

/* What outer() calls, besides inner(). */
#define NEST 2

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
	int r = what == NEST ? nest() : inner(what);

	KEEP;
	return r;
}

__attribute__((noinline)) int nest(void)
{
	uint64_t p = 0;
	size_t pitch = 0;
	int r = fn("cuMemAllocPitch_v2")(&p, &pitch, (size_t)100, (size_t)10, 4);

	KEEP;
	return r;
}

__attribute__((noinline)) int waiter(void)
{
	int r = fn("cuCtxSynchronize")();

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

/* The bits of path choose the callers. */
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

__attribute__((always_inline)) static inline void call_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);

	if (plugin)
		((int (*)(fn_t))dlsym(plugin, "plugin_alloc"))(mem_alloc);
}

static int count(const char *path, const char *what)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	int n = 0;

	while (f && getline(&line, &size, f) > 0)
		n += strstr(line, what) != NULL;
	free(line);
	if (f)
		fclose(f);
	return n;
}

/* The number of its calls in the trace. */
static void await(const char *name, int n)
{
	const char *path = getenv("STACKS_TRACE");
	char what[64];

	snprintf(what, sizeof(what), "\"name\":\"%s\"", name);
	for (int i = 0; path && i < 1000 && count(path, what) < n; i++)
		usleep(20000);
}

__attribute__((always_inline)) static inline void everywhere(const char *path)
{
	pthread_t t;

	outer(0);
	outer(1);
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, NULL);
	if (path)
		call_plugin(path);
	await("cuMemAlloc", path ? 3 : 2);
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
	if (argc > 3 && !strcmp(argv[3], "late")) {
		outer(0);
		usleep(250000);
		call_plugin(argv[2]);
		usleep(150000);
	} else if (argc > 3) {
		for (unsigned i = 0; i < (unsigned)atoi(argv[3]); i++)
			left(i, argc > 4 ? atoi(argv[4]) : 16);
	} else if (argc > 2 && !strcmp(argv[2], "nest")) {
		outer(NEST);
		await("cuMemAllocPitch", 1);
	} else if (argc > 2 && !strcmp(argv[2], "sync")) {
		for (volatile int i = 0; i < 3; i++)
			waiter();
		fn("cuCtxSynchronize")();
		await("cuCtxSynchronize", 4);
	} else {
		everywhere(argv[2]);
	}
	KEEP;
	return 0;
}
