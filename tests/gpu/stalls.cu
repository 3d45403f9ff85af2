// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Kernels with one known disease each.   ill all|launches|threads|two|reset|graph SECONDS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#include <cuda_runtime.h>
#include <cuda.h>
#define CK(x) do { cudaError_t e_ = (x); if (e_) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e_)); exit(1); } } while (0)
__global__ void stream_add(const float4 *a, float4 *b, size_t n) { for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) { float4 v = a[i]; v.x += 1; v.y += v.z; b[i] = v; } }
__global__ void pure_fma(float *o, int n) { float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5; for (int i = 0; i < n; i++) { a = a * 1.1f + .5f; b = b * 1.1f + .5f; c = c * 1.1f + .5f; d = d * 1.1f + .5f; e = e * 1.1f + .5f; f = f * 1.1f + .5f; } o[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d + e + f; }
__global__ void strided(const float *a, float *o, int n, int s) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) o[i] = a[((size_t)i * s) & (n - 1)]; }
__global__ void banks(float *o, int n) { __shared__ float s[4096]; int t = threadIdx.x; float x = 0; for (int i = t; i < 4096; i += blockDim.x) s[i] = i; __syncthreads(); for (int i = 0; i < n; i++) x += s[((t & 31) * 32 + (i & 31) + (t >> 5) * 128) & 4095]; o[blockIdx.x * blockDim.x + t] = x; }
__global__ void one_counter(unsigned *p, unsigned *o, int n) { unsigned v = threadIdx.x; for (int i = 0; i < n; i++) v = atomicExch(p, v) + 1; o[blockIdx.x * blockDim.x + threadIdx.x] = v; }
__global__ void __launch_bounds__(1024, 2) spilled(float *o, const float *a, int n) { float r[96];
#pragma unroll
	for (int i = 0; i < 96; i++) r[i] = a[(threadIdx.x + i) & 1023];
	for (int k = 0; k < n; k++) {
#pragma unroll
		for (int i = 0; i < 96; i++) r[i] = r[i] * r[(i + 37) % 96] + 1; }
	float s = 0;
#pragma unroll
	for (int i = 0; i < 96; i++) s += r[i];
	o[blockIdx.x * blockDim.x + threadIdx.x] = s; }
__global__ void four_blocks(float *o, int n) { float a = threadIdx.x; for (int i = 0; i < n; i++) a = a * 1.1f + .5f; o[blockIdx.x * blockDim.x + threadIdx.x] = a; }
__global__ void chase(const unsigned *next, unsigned *o, int n) { unsigned p = (blockIdx.x * blockDim.x + threadIdx.x) * 7919u & ((1u << 26) - 1); for (int i = 0; i < n; i++) p = next[p]; o[blockIdx.x * blockDim.x + threadIdx.x] = p; }
__global__ void uneven(float *o, int n) { float a = threadIdx.x; for (int i = 0; i < n; i++) { if (threadIdx.x < 32) for (int j = 0; j < 200; j++) a = a * 1.1f + .5f; __syncthreads(); } o[blockIdx.x * blockDim.x + threadIdx.x] = a; }
__global__ void sines(float *o, int n) { float a = threadIdx.x, b = a + 1; for (int i = 0; i < n; i++) { a = __sinf(a); b = __sinf(b); } o[blockIdx.x * blockDim.x + threadIdx.x] = a + b; }
__global__ void lanes(float *o, int n) { float a = threadIdx.x * .5f; int l = threadIdx.x & 31; for (int i = 0; i < n; i++) for (int k = 0; k < 32; k++) if (l == k) { for (int j = 0; j < 6; j++) a = a * 1.1f + k; asm volatile("" : "+f"(a)); } o[blockIdx.x * blockDim.x + threadIdx.x] = a; }
__global__ void paths(float *o, int n, int m) { float a = threadIdx.x; int l = threadIdx.x & 15; for (int i = 0; i < n; i++)
#pragma unroll
	for (int k = 0; k < 16; k++) if (l == k)
#pragma unroll 1
		for (int j = 0; j < m; j++) a = a * 1.1f + k; o[blockIdx.x * blockDim.x + threadIdx.x] = a; }
__global__ void own_counters(unsigned *p, unsigned *o, int n) { unsigned v = threadIdx.x, *q = p + blockIdx.x * blockDim.x + v; for (int i = 0; i < n; i++) v = atomicExch(q, v) + 1; o[blockIdx.x * blockDim.x + threadIdx.x] = v; }
__global__ void nothing() {}
static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static float *a, *o; static unsigned *u; static const int n = 1 << 26;
static void launch(int k, cudaStream_t s) {
	switch (k) {
	case 0: stream_add<<<1056, 256, 0, s>>>((float4 *)a, (float4 *)o, n / 4); break;
	case 1: pure_fma<<<1056, 256, 0, s>>>(o, 20000); break;
	case 2: strided<<<1056, 256, 0, s>>>(a, o, n, 32); break;
	case 3: banks<<<528, 256, 0, s>>>(o, 4000); break;
	case 4: one_counter<<<264, 256, 0, s>>>((unsigned *)o, u, 20); break;
	case 5: spilled<<<264, 1024, 0, s>>>(o, a, 100); break;
	case 6: four_blocks<<<4, 128, 0, s>>>(o, 80000); break;
	case 7: chase<<<264, 256, 0, s>>>(u, (unsigned *)o, 400); break;
	case 8: uneven<<<528, 256, 0, s>>>(o, 400); break;
	case 9: sines<<<1056, 256, 0, s>>>(o, 5000); break;
	case 10: lanes<<<528, 256, 0, s>>>(o, 400); break;
	case 11: paths<<<528, 256, 0, s>>>(o, 40, 8); break;
	case 12: own_counters<<<264, 256, 0, s>>>((unsigned *)o, u, 400); break;
	}
}
int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "all"; double each = argc > 2 ? atof(argv[2]) : .5;
	CK(cudaMalloc(&a, (size_t)n * 4)); CK(cudaMalloc(&o, (size_t)n * 4)); CK(cudaMalloc(&u, (size_t)n * 4));
	unsigned *h = (unsigned *)malloc((size_t)n * 4); for (int i = 0; i < n; i++) h[i] = (i * 1664525u + 1013904223u) & (n - 1);
	CK(cudaMemcpy(u, h, (size_t)n * 4, cudaMemcpyHostToDevice)); CK(cudaMemset(a, 0, (size_t)n * 4));
	if (!strcmp(what, "launches")) {
		std::vector<double> v;
		for (double t0 = now(); now() - t0 < each;) { double t = now(); for (int i = 0; i < 20000; i++) nothing<<<1, 32>>>(); CK(cudaDeviceSynchronize()); v.push_back((now() - t) / 20000 * 1e6); }
		std::sort(v.begin(), v.end()); printf("launch_us %.3f\n", v[v.size() / 2]); return 0;
	}
	if (!strcmp(what, "gemmlike")) { std::vector<double> v; for (double t0 = now(); now() - t0 < each;) { double t = now(); for (int i = 0; i < 4; i++) launch(1, 0); CK(cudaDeviceSynchronize()); v.push_back((now() - t) * 250); } std::sort(v.begin(), v.end()); printf("kernel_ms %.4f\n", v[v.size() / 2]); return 0; }
	if (!strcmp(what, "threads")) {   // threads that launch when main() returns
		for (int i = 0; i < 4; i++) std::thread([] { cudaStream_t s; cudaStreamCreate(&s); for (;;) { launch(6, s); cudaStreamSynchronize(s); } }).detach();
		double t0 = now(); while (now() - t0 < each) { launch(1, 0); cudaDeviceSynchronize(); }
		printf("threads\n"); exit(0);
	}
	if (!strcmp(what, "two")) { CUcontext c; CUdevice d; cuDeviceGet(&d, 0); CUctxCreateParams p = {}; if (cuCtxCreate(&c, &p, 0, d)) return 1; cuCtxPopCurrent(&c); cuCtxDestroy(c); }
	if (!strcmp(what, "reset")) { for (int i = 0; i < 3; i++) { CK(cudaDeviceReset()); CK(cudaMalloc(&o, (size_t)n * 4)); double t0 = now(); while (now() - t0 < each) { launch(1, 0); CK(cudaDeviceSynchronize()); } } printf("reset\n"); return 0; }
	if (!strcmp(what, "graph")) { cudaStream_t s; CK(cudaStreamCreate(&s)); cudaGraph_t g; cudaGraphExec_t e; CK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal)); for (int i = 0; i < 5; i++) { launch(1, s); launch(9, s); } CK(cudaStreamEndCapture(s, &g)); CK(cudaGraphInstantiate(&e, g, 0)); std::vector<double> v; double t0 = now(); while (now() - t0 < each) { double t = now(); CK(cudaGraphLaunch(e, s)); CK(cudaStreamSynchronize(s)); v.push_back((now() - t) * 1e3); } std::sort(v.begin(), v.end()); printf("graph_ms %.4f\n", v[v.size() / 2]); return 0; }
	for (int k = 0; k < 13; k++) { long l = 0; double t0 = now(), t; do { for (int i = 0; i < 4; i++) launch(k, 0); l += 4; CK(cudaGetLastError()); CK(cudaDeviceSynchronize()); t = now(); } while (t - t0 < each); printf("kernel %d: %ld launches, %.1f us\n", k, l, (t - t0) / l * 1e6); }
	return 0;
}
