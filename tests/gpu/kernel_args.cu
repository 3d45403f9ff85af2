/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Launches whose parameters a trace must contain. Prints for each, as tests/kernel_args.c, its kernel and offset:size:value, the value
 * as hexadecimal bytes. Kernels are launched by the runtime (CUkernel), by cuLaunchKernel (CUfunction) with kernelParams and with extra,
 * and first inside a stream capture, where a query that is not allowed would end the capture.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

struct s24 {
	uint64_t a;
	float *p;
	uint64_t b;
};
struct s200 {
	uint64_t a[25];
};

__global__ void simple(float *a, unsigned n, unsigned char c, unsigned short h, double d)
{
	if (a && threadIdx.x == n)
		*a = c + h + d;
}

__global__ void structs(int n, s24 s, int m)
{
	if (threadIdx.x == 1000)
		*s.p = n + m;
}

__global__ void large(s200 s, s200 t, int n)
{
	if (threadIdx.x == 1000)
		*(float *)s.a[0] = t.a[1] + n;
}

__global__ void captured(float *a, int n)
{
	if (threadIdx.x == 1000)
		*a = n;
}

__global__ void none()
{
}

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		int r_ = (int)(x);                                                                 \
		if (r_) {                                                                          \
			fprintf(stderr, "%s: %d\n", #x, r_);                                       \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static void put(const char *sep, unsigned off, unsigned size, const void *p, unsigned len)
{
	printf("%s%u:%u:", sep, off, size);
	for (unsigned i = 0; i < len; i++)
		printf("%02x", ((const unsigned char *)p)[i]);
	if (!len)
		printf("-");
}

static void put_simple(float *a, unsigned n, unsigned char c, unsigned short h, double d)
{
	put("simple ", 0, 8, &a, 8);
	put(" ", 8, 4, &n, 4);
	put(" ", 12, 1, &c, 1);
	put(" ", 14, 2, &h, 2);
	put(" ", 16, 8, &d, 8);
	puts("");
}

int main()
{
	float *a;
	cudaStream_t side;
	cudaGraph_t graph;
	cudaFunction_t f;
	unsigned n = 5000;
	unsigned char c = 0xab;
	unsigned short h = 0xcdef;
	double d = 1.5;

	CHECK(cudaMalloc(&a, 4096));
	printf("block %llx\n", (unsigned long long)(uintptr_t)a);
	simple<<<1, 32>>>(a + 10, n, c, h, d);
	put_simple(a + 10, n, c, h, d);
	s24 s = {1, a, 2};
	structs<<<1, 32>>>(7, s, 9);
	int seven = 7, nine = 9;
	put("structs ", 0, 4, &seven, 4);
	put(" ", 8, 24, &s, 24);
	put(" ", 32, 4, &nine, 4);
	puts("");
	s200 x = {{(uint64_t)(uintptr_t)a}}, y = {{6}};
	large<<<1, 32>>>(x, y, 7);
	put("large ", 0, 200, &x, 200);
	put(" ", 200, 200, &y, 56);
	put(" ", 400, 4, nullptr, 0);
	puts("");
	none<<<1, 1>>>();
	puts("none unknown");
	CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
	captured<<<1, 32, 0, side>>>(a + 1, 7);
	CHECK(cudaStreamEndCapture(side, &graph));
	float *a1 = a + 1;
	put("captured ", 0, 8, &a1, 8);
	put(" ", 8, 4, &seven, 4);
	puts("");
	CHECK(cudaGetFuncBySymbol(&f, (const void *)simple));
	void *params[] = {&a, &n, &c, &h, &d};
	CHECK(cuLaunchKernel((CUfunction)f, 1, 1, 1, 32, 1, 1, 0, 0, params, nullptr));
	put_simple(a, n, c, h, d);
	unsigned char buf[24] = {};
	size_t size = sizeof(buf);
	memcpy(buf, &a, 8);
	memcpy(buf + 8, &n, 4);
	memcpy(buf + 12, &c, 1);
	memcpy(buf + 14, &h, 2);
	memcpy(buf + 16, &d, 8);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buf, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	CHECK(cuLaunchKernel((CUfunction)f, 1, 1, 1, 32, 1, 1, 0, 0, nullptr, extra));
	put_simple(a, n, c, h, d);
	CHECK(cudaDeviceSynchronize());
	return 0;
}
