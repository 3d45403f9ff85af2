/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs that fail, for the corpus: faults CASE. Each prints what it did, its CUDA errors, and the addresses.
 *   after_free   a kernel writes 4 MiB into a block of 64 MiB that was freed just before
 *   past_end     a kernel writes 1 GiB past the end of its block
 *   endless      a kernel spins until a flag is set, which nobody sets; the program is killed from outside
 *   misaligned   a kernel loads 4 bytes from an odd address
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__global__ void warm_up(float *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = i;
}

__global__ void after_free(float *p, size_t n)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	if (i < n)
		p[i] += 1;
}

__global__ void past_end(float *p, size_t offset)
{
	p[offset + threadIdx.x] = 1;
}

__global__ void spins(volatile int *flag)
{
	while (!*flag)
		;
}

__global__ void misaligned(const char *p, int *out)
{
	*out = *(const int *)(p + 1);
}

static int failed(const char *what, cudaError_t err)
{
	printf("%s: %s\n", what, cudaGetErrorString(err));
	fflush(stdout);
	return err != cudaSuccess;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	size_t n = 16 << 20;
	float *a, *b;
	int *flag;

	if (failed("cudaMalloc a", cudaMalloc(&a, n * 4)) || failed("cudaMalloc b", cudaMalloc(&b, n * 4)) ||
	    failed("cudaMalloc flag", cudaMalloc(&flag, 4)) || failed("cudaMemset", cudaMemset(flag, 0, 4)))
		return 1;
	printf("pid %d a %p b %p flag %p bytes %zu\n", getpid(), (void *)a, (void *)b, (void *)flag, n * 4);
	for (int i = 0; i < 5; i++)
		warm_up<<<(n + 255) / 256, 256>>>(b, n);
	failed("warm_up", cudaDeviceSynchronize());
	if (!strcmp(mode, "after_free")) {
		failed("cudaFree a", cudaFree(a));
		after_free<<<4096, 256>>>(a, 1 << 20);
	} else if (!strcmp(mode, "past_end")) {
		past_end<<<1, 256>>>(a, n + (1 << 28));
	} else if (!strcmp(mode, "endless")) {
		spins<<<1, 1>>>(flag);
		warm_up<<<1, 256>>>(b, 256);
	} else if (!strcmp(mode, "misaligned")) {
		misaligned<<<1, 1>>>((const char *)a, flag);
	}
	return failed(mode, cudaDeviceSynchronize());
}
