/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mocks of libcublas and, with -DLT, libcublasLt: a product is a memset of the device, so that
 * there is something which a GPU executes. cublasGemmEx calls cublasLt, as the real one does. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"), noinline))

int cuMemsetD8Async(uint64_t p, unsigned char x, size_t n, void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_desc,
		   const void *b, void *b_desc, const void *beta, const void *c, void *c_desc,
		   void *d, void *d_desc, const void *algo, void *workspace, size_t size,
		   void *stream);

#ifdef LT
EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_desc,
			  const void *b, void *b_desc, const void *beta, const void *c,
			  void *c_desc, void *d, void *d_desc, const void *algo, void *workspace,
			  size_t size, void *stream)
{
	return handle ? cuMemsetD8Async((uintptr_t)d, 0, 64, stream) : 1;
}
#else
EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
			  const float *a, int lda, const float *b, int ldb, const float *beta,
			  float *c, int ldc)
{
	volatile char deep[64 << 10];

	/* As much of the stack as the real ones take, and more. */
	deep[0] = deep[sizeof(deep) - 1] = 0;
	return handle ? cuMemsetD8Async((uintptr_t)c, 0, 64, NULL) + deep[0] : 1;
}

EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
			const void *beta, void *c, int c_type, int ldc, int compute, int algo)
{
	uint64_t layout[3][8] = {{a_type, m, k}, {b_type, k, n}, {c_type, m, n}};
	uint32_t desc[12] = {[2] = compute};

	return cublasLtMatmul(handle, desc, alpha, a, layout[0], b, layout[1], beta, c, layout[2],
			      c, layout[2], NULL, NULL, 0, NULL);
}

EXPORT int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k,
				      const void *alpha, const void *a, int a_type, int lda,
				      int64_t sa, const void *b, int b_type, int ldb, int64_t sb,
				      const void *beta, void *c, int c_type, int ldc, int64_t sc,
				      int batch, int compute, int algo)
{
	return handle ? cuMemsetD8Async((uintptr_t)c, 0, 64, NULL) : 1;
}

EXPORT int cublasCgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k,
				     const void *alpha, const void *a, int lda, int64_t sa,
				     const void *b, int ldb, int64_t sb, const void *beta, void *c,
				     int ldc, int64_t sc, int batch)
{
	return handle ? 0 : 1;
}
#endif
