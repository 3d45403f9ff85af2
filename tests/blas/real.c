/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls into the real libraries of the folder argv[1] that need no GPU. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A function of the first version of a library that is there; NULL: there is none. */
static void *sym(const char *folder, const char *lib, const char *name)
{
	char path[4096];
	void *h = NULL, *s;

	for (int version = 20; version > 8 && !h; version--) {
		snprintf(path, sizeof(path), "%s/lib%s.so.%d%s", folder, lib, version,
			 version == 11 && !strcmp(lib, "cudart") ? ".0" : "");
		if (!access(path, R_OK) && !(h = dlopen(path, RTLD_NOW | RTLD_GLOBAL)))
			exit(77);
	}
	s = h ? dlsym(h, name) : NULL;
	if (h && !s)
		exit(2);
	return s;
}

static void products(const char *dir)
{
	int (*layout)(void **, int, uint64_t, uint64_t, int64_t) =
		sym(dir, "cublasLt", "cublasLtMatrixLayoutCreate");
	int (*desc)(void **, int, int) = sym(dir, "cublasLt", "cublasLtMatmulDescCreate");
	int (*matmul)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
		      void *, void *, void *, void *, void *, size_t, void *) =
		sym(dir, "cublasLt", "cublasLtMatmul");
	int (*strided)(void *, int, int, int, int, int, void *, void *, int, int, int64_t, void *,
		       int, int, int64_t, void *, void *, int, int, int64_t, int, int, int) =
		sym(dir, "cublas", "cublasGemmStridedBatchedEx");
	void *a, *b, *d, *how;
	float one = 1;

	if (!matmul || !strided)
		return;
	layout(&a, 2, 64, 128, 64);
	layout(&b, 2, 64, 32, 64);
	layout(&d, 0, 128, 32, 128);
	desc(&how, 68, 0);
	/* transA, which is at +20 in the descriptor: as cublasLtMatmulDescSetAttribute does. */
	((uint32_t *)how)[5] = 1;
	matmul(NULL, how, &one, NULL, a, NULL, b, &one, NULL, d, NULL, d, NULL, NULL, 0, NULL);
	strided(NULL, 0, 0, 10, 20, 30, &one, NULL, 14, 10, 300, NULL, 14, 30, 600, &one, NULL, 14,
		10, 200, 7, 68, -1);
}

int main(int argc, char **argv)
{
	int (*version)(int *) = sym(argv[1], "cudart", "cudaRuntimeGetVersion");
	int n;

	if (version)
		version(&n);
	products(argv[1]);
	return argc < 2;
}
