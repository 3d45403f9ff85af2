/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock of libcublas: a product launches a kernel on the stream that was set, so that it
 * becomes a node of a graph where the stream captures. serving_kernel() selects the kernel. */
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default"), noinline))

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra);

static void *kernel, *stream;

EXPORT void serving_kernel(void *f)
{
	kernel = f;
}

EXPORT int cublasSetStream_v2(void *handle, void *s)
{
	stream = s;
	return 0;
}

EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
			const void *beta, void *c, int c_type, int ldc, int compute, int algo)
{
	uint64_t x = 0, *args[] = {&x, &x, &x, &x};

	return handle ? cuLaunchKernel(kernel, (n + 127) / 128, (m + 127) / 128, 1, 128, 1, 1, 0,
				       stream, (void **)args, NULL)
		      : 1;
}

EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
			  const float *a, int lda, const float *b, int ldb, const float *beta,
			  float *c, int ldc)
{
	uint64_t x = 0, *args[] = {&x, &x, &x, &x};

	return handle ? cuLaunchKernel(kernel, (n + 127) / 128, (m + 127) / 128, 1, 128, 1, 1, 0,
				       stream, (void **)args, NULL)
		      : 1;
}
