/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A program linked to the driver: the loader looks up its functions. */
#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **ctx, int dev);
int cuCtxSetCurrent(void *ctx);
int cuMemAlloc_v2(uint64_t *p, size_t size);
int cuDriverGetVersion(int *version);

static int (*const table[])(int *) = {cuDriverGetVersion};

int main(void)
{
	int version = 0;
	uint64_t p;
	void *ctx;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		return 1;
	for (int i = 0; i < 10; i++)
		if (cuMemAlloc_v2(&p, 4096))
			return 1;
	return table[0](&version) || version != 13000;
}
