// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The second set of kernels for --stalls, written after the rules of src/report/gpu/diagnoses.def: each with one planted problem, which
 * tests/gpu/diagnose.py lists, or none (axpy). The first set is stalls.cu.
 *
 * usage: proof SECONDS    launches each kernel for that long; 0: once
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#define CHECK(call)                                                                                                                            \
	do {                                                                                                                                   \
		cudaError_t error = call;                                                                                                      \
		if (error) {                                                                                                                   \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                                                         \
			exit(1);                                                                                                               \
		}                                                                                                                              \
	} while (0)

__device__ static unsigned thread_id()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static unsigned random_next(unsigned x)
{
	return x * 747796405u + 2891336453u;
}

// Each lane reads another sector of a large table.
__global__ void hash_lookup(const unsigned *table, unsigned mask, unsigned *hits, int n)
{
	unsigned key = thread_id(), found = 0;

#pragma unroll 4
	for (int i = 0; i < n; i++) {
		key = random_next(key);
		found += table[(key ^ key >> 15) * 2654435769u & mask] == key;
	}
	hits[thread_id()] = found;
}

// A column of the tile is in one bank.
__global__ void transpose_tile(const float *in, float *out, int n)
{
	__shared__ float tile[32][32];
	int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;

	for (int i = 0; i < 32; i += 8)
		tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * n + x];
	__syncthreads();
	x = blockIdx.y * 32 + threadIdx.x;
	y = blockIdx.x * 32 + threadIdx.y;
	for (int i = 0; i < 32; i += 8)
		out[(size_t)(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}

// Rows of 128 bytes: all lanes use the same two banks.
__global__ void row_sums(double *out, int n)
{
	__shared__ double rows[128][16];
	double sum = 0;

	for (int i = threadIdx.x; i < 128 * 16; i += blockDim.x)
		rows[i / 16][i % 16] = i;
	__syncthreads();
	for (int i = 0; i < n; i++)
		for (int k = 0; k < 8; k++)
			sum += rows[threadIdx.x][(k * 3 + i) & 15];
	out[thread_id()] = sum;
}

// Each element is added to one number.
__global__ void sum_by_atomic(const float *in, float *sum, int n)
{
	for (int i = thread_id(); i < n; i += gridDim.x * blockDim.x)
		atomicAdd(sum, in[i]);
}

// An array in local memory, because the index is not constant.
__global__ void bucket_max(unsigned *out, int n)
{
	unsigned best[48] = {0}, x = thread_id() + 1, sum = 0;

	for (int i = 0; i < n; i++) {
		x = random_next(x);
		unsigned bucket = (x >> 8) % 48;
		best[bucket] = max(best[bucket], x);
	}
	for (int i = 0; i < 48; i++)
		sum += best[i];
	out[thread_id()] = sum;
}

// Lanes leave the loop after very different numbers of iterations.
__global__ void escape_time(unsigned *out, int n)
{
	unsigned x = random_next(random_next(thread_id())), total = 0;

	for (int point = 0; point < 16; point++) {
		x = random_next(x);
		float re = (x >> 20) / 1400.f - 2.1f, im = (x >> 8 & 0xfff) / 1700.f - 1.2f, a = 0, b = 0;
		int i = 0;

		while (i < n && a * a + b * b < 4) {
			float t = a * a - b * b + re;

			b = 2 * a * b + im;
			a = t;
			i++;
		}
		total += i;
	}
	out[thread_id()] = total;
}

// Lanes execute different operations of a small machine.
__global__ void interpret(const unsigned *program, unsigned mask, float *out, int n)
{
	float a = 1 + threadIdx.x, b = 2;

	for (int i = 0; i < n; i++) {
		unsigned op = program[(i * gridDim.x * blockDim.x + thread_id()) & mask];

		switch (op >> 29) {
		case 0:
			a = sqrtf(a * a + b);
			break;
		case 1:
			for (unsigned k = op & 7; k; k--)
				b = b * 0.99f + a;
			break;
		case 2:
			a = a / (b * b + 1.5f);
			break;
		case 3:
			b = __sinf(a) + __cosf(b);
			break;
		case 4:
			a = fmodf(a, 7.f) + b;
			break;
		case 5:
			b = logf(fabsf(b) + 1) * a;
			break;
		case 6:
			for (unsigned k = op & 15; k; k--)
				a = a * 0.5f + b * 0.25f;
			break;
		default:
			b = expf(-fabsf(a)) + b;
		}
	}
	out[thread_id()] = a + b;
}

// As many blocks as a fifth of the multiprocessors.
__global__ void n_body(const float4 *bodies, float4 *out, int n)
{
	__shared__ float4 tile[256];
	float4 me = bodies[thread_id()];
	float x = 0, y = 0, z = 0;

	for (int from = 0; from < n; from += 256) {
		tile[threadIdx.x] = bodies[from + threadIdx.x];
		__syncthreads();
#pragma unroll 8
		for (int k = 0; k < 256; k++) {
			float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
			float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f), f = tile[k].w * r * r * r;

			x += dx * f;
			y += dy * f;
			z += dz * f;
		}
		__syncthreads();
	}
	out[thread_id()] = make_float4(x, y, z, 0);
}

// One block per multiprocessor, for its shared memory; the grid is 15 % larger.
__global__ void last_wave(float *out, int n)
{
	extern __shared__ float field[];
	int t = threadIdx.x;
	float x = t;

	field[t] = t;
	__syncthreads();
	for (int i = 0; i < n; i++) {
		x = 0.25f * field[(t + 1) % 512] + 0.5f * x + 0.25f * field[(t + 511) % 512];
		__syncthreads();
		field[t] = x;
		__syncthreads();
	}
	out[thread_id()] = x;
}

// A tiled matrix product of FP32 multiply-adds.
__global__ void __launch_bounds__(256) sgemm_tile(const float *a, const float *b, float *c, int n)
{
	__shared__ float as[8][128], bs[8][128];
	int t = threadIdx.x, row = blockIdx.y * 128, col = blockIdx.x * 128, y = t / 16 * 4, x = t % 16 * 4;
	float sum[8][8] = {{0}};

	for (int k = 0; k < n; k += 8) {
		float4 v = *(const float4 *)&a[(size_t)(row + t / 2) * n + k + t % 2 * 4];

		as[t % 2 * 4][t / 2] = v.x;
		as[t % 2 * 4 + 1][t / 2] = v.y;
		as[t % 2 * 4 + 2][t / 2] = v.z;
		as[t % 2 * 4 + 3][t / 2] = v.w;
		*(float4 *)&bs[t / 32][t % 32 * 4] = *(const float4 *)&b[(size_t)(k + t / 32) * n + col + t % 32 * 4];
		__syncthreads();
#pragma unroll
		for (int j = 0; j < 8; j++) {
			float p[8], q[8];

			*(float4 *)p = *(float4 *)&as[j][y];
			*(float4 *)(p + 4) = *(float4 *)&as[j][y + 64];
			*(float4 *)q = *(float4 *)&bs[j][x];
			*(float4 *)(q + 4) = *(float4 *)&bs[j][x + 64];
#pragma unroll
			for (int i = 0; i < 8; i++)
#pragma unroll
				for (int m = 0; m < 8; m++)
					sum[i][m] += p[i] * q[m];
		}
		__syncthreads();
	}
#pragma unroll
	for (int i = 0; i < 8; i++)
#pragma unroll
		for (int m = 0; m < 8; m += 4)
			*(float4 *)&c[(size_t)(row + y + i % 4 + i / 4 * 64) * n + col + x + m * 16] = *(float4 *)&sum[i][m];
}

// A warp reads a node of 128 bytes, which has the number of the next one.
__global__ void list_walk(const unsigned *nodes, unsigned *out, int n)
{
	unsigned lane = threadIdx.x % 32, at = thread_id() / 32 * 7919, sum = 0;

	for (int i = 0; i < n; i++) {
		unsigned word = nodes[(size_t)at * 32 + lane];

		at = __shfl_sync(~0u, word, 0);
		sum += word;
	}
	out[thread_id()] = sum;
}

__global__ void list_make(unsigned *nodes, unsigned mask)
{
	for (unsigned i = thread_id(); i <= mask; i += gridDim.x * blockDim.x)
		nodes[(size_t)i * 32] = random_next(i) & mask;
}

// Random numbers and few floating-point operations, in registers.
__global__ void monte_carlo(unsigned *out, int n)
{
	unsigned x = thread_id(), y = ~x, inside = 0;

#pragma unroll 8
	for (int i = 0; i < n; i++) {
		x = random_next(x);
		y = random_next(y);
		float a = __uint_as_float(0x3f800000 | x >> 9) - 1, b = __uint_as_float(0x3f800000 | y >> 9) - 1;

		inside += a * a + b * b < 1;
	}
	out[thread_id()] = inside;
}

// Healthy: bandwidth of memory.
__global__ void axpy(const float2 *x, float2 *y, float a, size_t n)
{
	for (size_t i = thread_id(); i < n; i += gridDim.x * blockDim.x) {
		float2 v = x[i], w = y[i];

		y[i] = make_float2(a * v.x + w.x, a * v.y + w.y);
	}
}

static const size_t n = 1 << 28;
static float *a, *b;
static unsigned *u;
static int waves;

static const struct {
	const char *name;
	void (*launch)();
} kernels[] = {
	{"hash_lookup", [] { hash_lookup<<<1056, 256>>>(u, n - 1, (unsigned *)b, 1200); }},
	{"transpose_tile", [] { transpose_tile<<<dim3(512, 512), dim3(32, 8)>>>(a, b, 16384); }},
	{"row_sums", [] { row_sums<<<1320, 128>>>((double *)b, 1500); }},
	{"sum_by_atomic", [] { sum_by_atomic<<<528, 512>>>(a, b, 1 << 23); }},
	{"bucket_max", [] { bucket_max<<<1056, 192>>>((unsigned *)b, 4000); }},
	{"escape_time", [] { escape_time<<<2112, 128>>>((unsigned *)b, 3000); }},
	{"interpret", [] { interpret<<<792, 192>>>(u, (1 << 22) - 1, b, 2000); }},
	{"n_body", [] { n_body<<<24, 256>>>((float4 *)a, (float4 *)b, 24 * 256 * 8); }},
	{"last_wave", [] { last_wave<<<waves, 512, 200 << 10>>>(b, 30000); }},
	{"sgemm_tile", [] { sgemm_tile<<<dim3(40, 40), 256>>>(a, a + n / 2, b, 40 * 128); }},
	{"list_walk", [] { list_walk<<<132, 64>>>(u, (unsigned *)b, 8000); }},
	{"monte_carlo", [] { monte_carlo<<<1584, 256>>>((unsigned *)b, 40000); }},
	{"axpy", [] { axpy<<<2112, 512>>>((float2 *)a, (float2 *)b, 1.5f, n / 2); }},
};

static double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.4;
	int multiprocessors, blocks;

	CHECK(cudaMalloc(&a, n * 4));
	CHECK(cudaMalloc(&b, n * 4));
	CHECK(cudaMalloc(&u, n * 4));
	CHECK(cudaMemset(a, 0x3f, n * 4));
	CHECK(cudaMemset(b, 0, n * 4));
	unsigned *random = (unsigned *)malloc(16 << 20);
	for (int i = 0, x = 1; i < 4 << 20; i++)
		random[i] = x = x * 1664525u + 1013904223u;
	for (size_t i = 0; i < n; i += 4 << 20)
		CHECK(cudaMemcpy(u + i, random, 16 << 20, cudaMemcpyHostToDevice));
	CHECK(cudaFuncSetAttribute(last_wave, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
	CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, last_wave, 512, 200 << 10));
	waves = multiprocessors * blocks * 115 / 100;
	for (auto &kernel : kernels) {
		double start = now(), end;
		int launches = 0;

		if (!strcmp(kernel.name, "list_walk"))
			list_make<<<1056, 256>>>(u, (1 << 23) - 1);
		do {
			kernel.launch();
			CHECK(cudaGetLastError());
			CHECK(cudaDeviceSynchronize());
			launches++;
			end = now();
		} while (end - start < seconds);
		printf("%s: %d launches, %.3f ms each\n", kernel.name, launches, (end - start) / launches * 1e3);
	}
	return 0;
}
