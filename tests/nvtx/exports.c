/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A mock for libnvToolsExt: real exports, which do nothing when no tool is there. Handles and
 * ids are 0 then, as its own are. */
#include <stdint.h>

#define EXPORT(name)                                                                               \
	__attribute__((noinline)) uint64_t name(void *a, void *b, void *c);                        \
	__attribute__((noinline)) uint64_t name(void *a, void *b, void *c)                         \
	{                                                                                          \
		__asm__ volatile("nop" ::"r"(a), "r"(b), "r"(c), "i"(__COUNTER__) : "memory");     \
		return 0;                                                                          \
	}
EXPORT(nvtxMarkEx)
EXPORT(nvtxMarkA)
EXPORT(nvtxRangeStartEx)
EXPORT(nvtxRangeStartA)
EXPORT(nvtxRangeEnd)
EXPORT(nvtxRangePushEx)
EXPORT(nvtxRangePushA)
EXPORT(nvtxRangePushW)
EXPORT(nvtxRangePop)
EXPORT(nvtxNameCategoryA)
EXPORT(nvtxNameOsThreadA)
EXPORT(nvtxDomainMarkEx)
EXPORT(nvtxDomainRangePushEx)
EXPORT(nvtxDomainRangePop)
EXPORT(nvtxDomainNameCategoryA)
EXPORT(nvtxDomainRegisterStringA)
EXPORT(nvtxDomainCreateA)
EXPORT(nvtxDomainDestroy)
