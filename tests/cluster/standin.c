/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * standin LIBRARY RATE SECONDS [leak|fail]: a program of a cluster's node. It makes RATE calls per
 * second, in steps of ten: eight launches, a copy, a synchronisation. leak: one more call allocates
 * 1 MiB per 100 ms; fail: one more call per step fails. Prints the number of its calls when it
 * ends, by itself or by SIGTERM.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP_CALLS 10
#define LAUNCHES   8
#define LEAK_NS	   100000000
#define LEAK_BYTES (1024 * 1024)

typedef int (*call_fn)();

static void *lib;
static long made;
static volatile sig_atomic_t stopped;

static const char ptx[] = ".version 6.0\n.target sm_60\n.address_size 64\n"
			  ".visible .entry step(.param .u64 a, .param .u32 n)\n{\n\tret;\n}\n";

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static call_fn find(const char *name)
{
	call_fn fn = (call_fn)dlsym(lib, name);

	if (!fn) {
		fprintf(stderr, "standin: no %s\n", name);
		exit(1);
	}
	return fn;
}

static void must(int err, const char *what)
{
	made++;
	if (err) {
		fprintf(stderr, "standin: %s returns %d\n", what, err);
		exit(1);
	}
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

int main(int argc, char **argv)
{
	call_fn launch, copy, sync, alloc, release;
	uint64_t begin, end, next, leaked, mem = 0, pace;
	void *ctx, *module, *func, *params[2];
	const char *what = argc > 4 ? argv[4] : "";
	static char host[64];
	unsigned n = 1;

	if (argc < 4 || !(lib = dlopen(argv[1], RTLD_NOW))) {
		fprintf(stderr, "usage: standin LIBRARY RATE SECONDS [leak|fail]\n");
		return 2;
	}
	signal(SIGTERM, on_term);
	launch = find("cuLaunchKernel");
	copy = find("cuMemcpyHtoDAsync_v2");
	sync = find("cuStreamSynchronize");
	alloc = find("cuMemAlloc_v2");
	release = find("cuMemFree_v2");
	must(find("cuInit")(0), "cuInit");
	must(find("cuDevicePrimaryCtxRetain")(&ctx, 0), "cuDevicePrimaryCtxRetain");
	must(find("cuCtxSetCurrent")(ctx), "cuCtxSetCurrent");
	must(find("cuModuleLoadData")(&module, ptx), "cuModuleLoadData");
	must(find("cuModuleGetFunction")(&func, module, "step"), "cuModuleGetFunction");
	must(alloc(&mem, (size_t)4096), "cuMemAlloc_v2");
	params[0] = &mem;
	params[1] = &n;
	pace = STEP_CALLS * 1000000000ull / strtoull(argv[2], NULL, 10);
	begin = next = leaked = now_ns();
	end = begin + (uint64_t)(atof(argv[3]) * 1e9);
	while (!stopped && next < end) {
		for (int i = 0; i < LAUNCHES; i++)
			must(launch(func, 8, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
			     "cuLaunchKernel");
		must(copy(mem, host, sizeof(host), NULL), "cuMemcpyHtoDAsync_v2");
		must(sync(NULL), "cuStreamSynchronize");
		if (!strcmp(what, "fail"))
			must(!release((uint64_t)1), "cuMemFree_v2 of an address that is none");
		if (!strcmp(what, "leak") && next - leaked > LEAK_NS) {
			must(alloc(&(uint64_t){0}, (size_t)LEAK_BYTES), "cuMemAlloc_v2");
			leaked = next;
		}
		next += pace;
		sleep_until(next);
	}
	must(release(mem), "cuMemFree_v2");
	printf("%ld\n", made);
	return 0;
}
