// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Instructions of tensor cores and multiply-adds of each architecture, to compare how they are decoded (tests/e2e/test_stalls.py). It is
 * compiled and disassembled, not run.
 */
#include <cstdint>
#include <cuda_fp16.h>
#define MMA(shape, types, c, kind)                                                                                                             \
	asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"                         \
		     : kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3])                                                                          \
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]))
#define WGMMA(shape, types, c, kind, end)                                                                                                      \
	asm volatile("wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned." shape "." types " {%0,%1,%2,%3}, %4, %5, " end                  \
		     "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"                                                     \
		     : kind(c[0]), kind(c[1]), kind(c[2]), kind(c[3])                                                                          \
		     : "l"(x), "l"(y))
#define TCGEN(type)                                                                                                                            \
	asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; tcgen05.mma.cta_group::1.kind::" type " [%0], %1, %2, %3, p;}"                       \
		     :: "r"(a[6]), "l"(x), "l"(y), "r"(a[7]))

__global__ void matrix(uint32_t *u, float *f, double *d, __half2 *h)
{
	uint32_t a[8];
	int i[4];
	float c[4];
	uint64_t x = u[8], y = u[9];

	for (int k = 0; k < 8; k++)
		a[k] = u[k];
	for (int k = 0; k < 4; k++) {
		i[k] = u[10 + k];
		c[k] = f[k];
	}
	MMA("m16n8k16", "f32.f16.f16.f32", c, "+f");
	MMA("m16n8k32", "s32.s8.s8.s32", i, "+r");
	asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};" : "+d"(d[0]), "+d"(d[1]) : "d"(d[2]), "d"(d[3]));
#if __CUDA_ARCH__ < 1000
	MMA("m16n8k256", "s32.b1.b1.s32.and.popc", i, "+r");
#endif
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ == 1200
	MMA("m16n8k32", "f32.e4m3.e4m3.f32", c, "+f");
#elif __CUDA_ARCH__ == 900
	WGMMA("m64n8k16", "f32.f16.f16", c, "+f", "1, 1, 1, 0, 0");
	WGMMA("m64n8k32", "f32.e4m3.e4m3", c, "+f", "1, 1, 1");
	WGMMA("m64n8k32", "s32.s8.s8", i, "+r", "1");
	WGMMA("m64n8k256", "s32.b1.b1.and.popc", i, "+r", "1");
#elif __CUDA_ARCH__ == 1000
	TCGEN("f16");
	TCGEN("f8f6f4");
	TCGEN("i8");
#endif
#if __CUDA_ARCH__ == 1000
	asm volatile("fma.rn.f32x2 %0, %1, %2, %1;" : "=l"(y) : "l"(x), "l"(y));
#endif
	f[0] = c[0] + c[1] + c[2] + c[3] + i[0] + i[1] + i[2] + i[3] + y;
	f[1] = fmaf(f[2], f[3], f[4]);
	d[4] = fma(d[5], d[6], d[7]);
	h[0] = __hfma2(h[1], h[2], h[3]);
}
