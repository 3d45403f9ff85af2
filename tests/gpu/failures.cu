/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Planted failures: failures CASE. Each prints its CUDA error and the addresses. The same kernel, which is healthy, runs on
 * another stream before and after the one that fails, so that it is a suspect, too.
 */
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <unistd.h>

__global__ void healthy(float *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] += 1;
}

__global__ void use_after_free(float *p)
{
	p[threadIdx.x] = 1;
}

__global__ void past_end_4_bytes(float *p, size_t n)
{
	p[n] = 1;
}

__global__ void past_end_1_gib(float *p, size_t n)
{
	p[n + (1 << 28)] = 1;
}

__global__ void null_pointer(float *p)
{
	p[threadIdx.x] = 1;
}

__global__ void misaligned(const char *p, int *out)
{
	*out = *(const int *)(p + 1);
}

__device__ int deep(int n, int *p)
{
	volatile int frame[256];

	frame[n & 255] = n;
	return n ? deep(n - 1, p) + frame[n & 255] : *p;
}

__global__ void stack_overflow(int *p)
{
	*p = deep(1 << 20, p);
}

__global__ void traps()
{
	asm("trap;");
}

__global__ void asserts(int n)
{
	assert(n < 0);
}

__global__ void endless(volatile int *flag)
{
	while (!*flag)
		;
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "";
	const size_t n = 16 << 20;
	cudaStream_t side;
	cudaEvent_t event;
	float *a, *b, *c;
	int *host;

	if (cudaMalloc(&a, n * 4) || cudaMalloc(&b, n * 4) || cudaMalloc(&c, n * 4) || cudaMallocHost(&host, 4) ||
	    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) || cudaEventCreate(&event))
		return 2;
	*host = 0;
	cudaMemset(a, 0, n * 4);
	for (int i = 0; i < 3; i++)
		healthy<<<n / 256, 256>>>(b, n);
	cudaDeviceSynchronize();
	/* failures CASE SECONDS: time to attach. */
	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		sleep(atoi(argv[2]));
	}
	healthy<<<n / 256, 256, 0, side>>>(c, n);
	if (!strcmp(which, "use_after_free")) {
		cudaFree(a);
		use_after_free<<<1, 256>>>(a);
	} else if (!strcmp(which, "past_end_4_bytes")) {
		past_end_4_bytes<<<1, 1>>>(c, n);
	} else if (!strcmp(which, "past_end_1_gib")) {
		past_end_1_gib<<<1, 1>>>(a, n);
	} else if (!strcmp(which, "null_pointer")) {
		null_pointer<<<1, 32>>>(nullptr);
	} else if (!strcmp(which, "misaligned")) {
		misaligned<<<1, 1>>>((const char *)a, (int *)b);
	} else if (!strcmp(which, "stack_overflow")) {
		stack_overflow<<<1, 1>>>((int *)b);
	} else if (!strcmp(which, "traps")) {
		traps<<<1, 1>>>();
	} else if (!strcmp(which, "asserts")) {
		asserts<<<1, 1>>>(1);
	} else if (!strcmp(which, "endless")) {
		endless<<<1, 1>>>((int *)a);
	} else if (!strcmp(which, "host_flag")) {
		endless<<<1, 1>>>(host);
	} else if (!strcmp(which, "never_recorded")) {
		cudaStreamWaitEvent(side, event, 0);
	} else if (!strcmp(which, "out_of_memory")) {
		void *p;

		while (!cudaMalloc(&p, (size_t)4 << 30))
			;
		printf("%s: out of memory; a block is %p\n", which, p);
		return 1;
	} else if (strcmp(which, "none")) {
		return 2;
	}
	healthy<<<n / 256, 256>>>(b, n);
	cudaError_t err = cudaDeviceSynchronize();
	printf("%s: %s; a %p b %p c %p\n", which, cudaGetErrorString(err), (void *)a, (void *)b, (void *)c);
	fflush(stdout);
	if (getenv("STAY"))
		sleep(atoi(getenv("STAY")));
	return err != cudaSuccess;
}
