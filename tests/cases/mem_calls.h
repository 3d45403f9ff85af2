/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that allocate and free memory, each with the expected event. */
#ifndef CASES_MEM_CALLS_H
#define CASES_MEM_CALLS_H

#include "case.h"

#define MIB ((size_t)1 << 20)

UNUSED static void mem_needs_devices(int needed)
{
	int cnt = 0, r = F(cuDeviceGetCount)(&cnt);

	expect("cuDeviceGetCount", r, "'op':'query','args':{'count':%d}", cnt);
	if (cnt >= needed)
		return;
	fprintf(stderr, "case: needs %d devices, there are %d\n", needed, cnt);
	exit(CASE_SKIP);
}

UNUSED static handle mem_retain(int dev)
{
	handle ctx = NULL;
	int r = F(cuDevicePrimaryCtxRetain)(&ctx, dev);

	expect("cuDevicePrimaryCtxRetain", r, "'type':'context','args':{'dev':%d}", dev);
	must("cuDevicePrimaryCtxRetain", r, 0);
	return ctx;
}

UNUSED static void *mem_alloc_host(size_t size)
{
	void *p = NULL;
	int r = F(cuMemAllocHost_v2)(&p, size);

	expect("cuMemAllocHost_v2", r, "'op':'alloc_host','size':%zu,'ptr':" HEX, size, H(p));
	must("cuMemAllocHost_v2", r, 0);
	return p;
}

UNUSED static dptr mem_alloc_managed(size_t size)
{
	dptr p = 0;
	int r = F(cuMemAllocManaged)(&p, size, 1);

	expect("cuMemAllocManaged", r, "'op':'alloc_managed','size':%zu,'ptr':" HEX, size, H(p));
	must("cuMemAllocManaged", r, 0);
	return p;
}

/* A call that frees, or fails. */
#define MEM_FREE(sym, ptr, wanted)                                                                 \
	do {                                                                                       \
		__typeof__(ptr) p_ = (ptr);                                                        \
		int r_ = F(sym)(p_);                                                               \
                                                                                                   \
		expect(#sym, r_, "'type':'memory','ptr':" HEX, H(p_));                             \
		must(#sym, r_, wanted);                                                            \
	} while (0)

/* CUmemAllocationProp */
struct mem_prop {
	int type, handles, loc_type, loc_id;
	void *meta;
	unsigned char compression, rdma;
	uint16_t usage;
	unsigned char reserved[4];
};

UNUSED static uint64_t mem_create(size_t size, int dev)
{
	struct mem_prop prop = {.type = 1, .loc_type = 1, .loc_id = dev};
	uint64_t phys = 0;
	int r = F(cuMemCreate)(&phys, size, &prop, 0ull);

	expect("cuMemCreate", r, "'op':'create','size':%zu,'ptr':" HEX, size, H(phys));
	must("cuMemCreate", r, 0);
	return phys;
}

#endif /* CASES_MEM_CALLS_H */
