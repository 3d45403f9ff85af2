/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls into the real libraries of the folder argv[1] that need no GPU. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *sym(const char *folder, const char *lib, const char *name)
{
	char path[4096];
	void *h, *s;

	snprintf(path, sizeof(path), "%s/%s", folder, lib);
	h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	s = h ? dlsym(h, name) : NULL;
	if (!s)
		exit(77);
	return s;
}

int main(int argc, char **argv)
{
	const char *dir = argv[1], *lt = "libcublasLt.so.13", *blas = "libcublas.so.13";
	int (*layout)(void **, int, uint64_t, uint64_t, int64_t) =
		sym(dir, lt, "cublasLtMatrixLayoutCreate");
	int (*desc)(void **, int, int) = sym(dir, lt, "cublasLtMatmulDescCreate");
	int (*matmul)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
		      void *, void *, void *, void *, void *, size_t, void *) =
		sym(dir, lt, "cublasLtMatmul");
	int (*strided)(void *, int, int, int, int, int, void *, void *, int, int, int64_t, void *,
		       int, int, int64_t, void *, void *, int, int, int64_t, int, int, int) =
		sym(dir, blas, "cublasGemmStridedBatchedEx");
	int (*version)(int *) = sym(dir, "libcudart.so.13", "cudaRuntimeGetVersion");
	int (*plan)(int, void **) = sym(dir, "libcudnn_graph.so.9", "cudnnBackendCreateDescriptor");
	void *a, *b, *d, *how, *made = NULL;
	float one = 1;
	int n;

	version(&n);
	layout(&a, 2, 64, 128, 64);
	layout(&b, 2, 64, 32, 64);
	layout(&d, 0, 128, 32, 128);
	desc(&how, 68, 0);
	/* transA, which is at +20 in the descriptor: as cublasLtMatmulDescSetAttribute does. */
	((uint32_t *)how)[5] = 1;
	matmul(NULL, how, &one, NULL, a, NULL, b, &one, NULL, d, NULL, d, NULL, NULL, 0, NULL);
	strided(NULL, 0, 0, 10, 20, 30, &one, NULL, 14, 10, 300, NULL, 14, 30, 600, &one, NULL, 14,
		10, 200, 7, 68, -1);
	plan(0, &made);
	return argc < 2;
}
