/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * collectives N: N small collectives of the mock libnccl, each with the calls that PyTorch
 * makes around one: get the context, check for a capture, wait for the program's stream, record an
 * event and query it. Prints the CPU time of its thread for one, in ns.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct unique_id {
	char internal[128];
};

static void *cuda, *nccl;

static void *sym(void *lib, const char *name)
{
	void *p = lib ? dlsym(lib, name) : NULL;

	if (!p) {
		fprintf(stderr, "collectives: no %s\n", name);
		exit(1);
	}
	return p;
}
#define CU(name) ((int (*)())sym(cuda, #name))

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1000;
	void *ctx, *of_program, *of_nccl, *before, *behind, *comm;
	int (*init)(void **, int, struct unique_id, int);
	int (*all_reduce)();
	struct unique_id id = {"x"};
	int capturing, failed;
	uint64_t p, start;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	nccl = dlopen("libnccl.so.2", RTLD_NOW);
	failed = CU(cuInit)(0) || CU(cuDevicePrimaryCtxRetain)(&ctx, 0) ||
		 CU(cuCtxSetCurrent)(ctx) || CU(cuStreamCreate)(&of_program, 1) ||
		 CU(cuStreamCreate)(&of_nccl, 1) || CU(cuEventCreate)(&before, 0) ||
		 CU(cuEventCreate)(&behind, 0) || CU(cuMemAlloc_v2)(&p, (size_t)4096);
	init = sym(nccl, "ncclCommInitRank");
	all_reduce = sym(nccl, "ncclAllReduce");
	failed = failed || init(&comm, 2, id, 0);

	int (*get_current)() = CU(cuCtxGetCurrent), (*set_current)() = CU(cuCtxSetCurrent);
	int (*is_capturing)() = CU(cuStreamIsCapturing), (*record)() = CU(cuEventRecord);
	int (*wait_event)() = CU(cuStreamWaitEvent), (*query)() = CU(cuEventQuery);
	int (*sync)() = CU(cuStreamSynchronize);

	start = cpu_ns();
	for (long i = 0; i < n && !failed; i++) {
		failed |= get_current(&ctx) || set_current(ctx);
		failed |= is_capturing(of_program, &capturing);
		failed |= record(before, of_program) || wait_event(of_nccl, before, 0);
		failed |= all_reduce(p, p, (size_t)1024, 7, 0, comm, of_nccl);
		failed |= record(behind, of_nccl) || wait_event(of_program, behind, 0);
		query(behind);
		if (i % 10 == 9)
			failed |= sync(of_program);
	}
	if (failed) {
		fprintf(stderr, "collectives: a call failed\n");
		return 1;
	}
	printf("%.0f\n", (double)(cpu_ns() - start) / n);
	return 0;
}
