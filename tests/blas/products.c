/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Products of matrices by the mocks: what test_blas.py expects. */
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **ctx, int dev);
int cuCtxSetCurrent(void *ctx);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *p, size_t n);
int cublasSgemm_v2(void *, int, int, int, int, int, const void *, const void *, int, const void *,
		   int, const void *, void *, int);
int cublasGemmEx(void *, int, int, int, int, int, const void *, const void *, int, int,
		 const void *, int, int, const void *, void *, int, int, int, int);
int cublasGemmStridedBatchedEx(void *, int, int, int, int, int, const void *, const void *, int,
			       int, int64_t, const void *, int, int, int64_t, const void *, void *,
			       int, int, int64_t, int, int, int);
int cublasCgemmStridedBatched(void *, int, int, int, int, int, const void *, const void *, int,
			      int64_t, const void *, int, int64_t, const void *, void *, int,
			      int64_t, int);

int main(void)
{
	float one = 1, zero = 0;
	void *handle = &one, *ctx, *c;
	uint64_t p;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
	    cuMemAlloc_v2(&p, 4096))
		return 3;
	c = (void *)(uintptr_t)p;
	for (int i = 0; i < 3; i++)
		cublasSgemm_v2(handle, 0, 1, 100, 50, 25, &one, c, 100, c, 50, &zero, c, 100);
	cublasGemmEx(handle, 0, 0, 10, 20, 30, &one, (char *)c + 256, 2, 10, (char *)c + 512, 2, 30,
		     &zero, c, 0, 10, 68, -1);
	cublasGemmStridedBatchedEx(handle, 0, 0, 10, 20, 30, &one, c, 14, 10, 300, c, 14, 30, 600,
				   &zero, c, 14, 10, 200, 7, 68, -1);
	cublasCgemmStridedBatched(handle, 0, 0, 2, 3, 4, &one, c, 2, 8, c, 4, 12, &zero, c, 2, 6,
				  5);
	/* Fails; and a size that makes no sense. */
	cublasSgemm_v2(NULL, 0, 1, 100, 50, 25, &one, c, 100, c, 50, &zero, c, 100);
	cublasSgemm_v2(handle, 0, 1, -1, 50, 25, &one, c, 100, c, 50, &zero, c, 100);
	return cuCtxSynchronize();
}
