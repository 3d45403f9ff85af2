/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Enables CUPTI with the settings of --gpu-time, without a reader (gpu_time.py, part floor). Loaded
 * by CUDA_INJECTION64_PATH. CUPTI_ALONE=callbacks: also with an empty callback at each launch and
 * copy. Needs CUDA's headers. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void request(uint8_t **buf, size_t *size, size_t *max)
{
	*size = 256 << 10;
	*buf = aligned_alloc(64, *size);
	*max = 0;
}

static void complete(CUcontext ctx, uint32_t stream, uint8_t *buf, size_t size, size_t valid)
{
	free(buf);
}

static void on_call(void *arg, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
}

int InitializeInjection(void)
{
	static const CUpti_ActivityKind kinds[] = {
		CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
		CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_GRAPH_TRACE};
	static const CUpti_CallbackId calls[] = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
						 CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
						 CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
						 CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
						 CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async};
	const char *how = getenv("CUPTI_ALONE");
	CUpti_SubscriberHandle subscriber;
	int failed = cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)on_call, NULL) ||
		     cuptiActivityRegisterCallbacks(request, complete);

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		failed |= cuptiActivityEnable(kinds[i]);
	failed |= cuptiActivityFlushPeriod(100);
	for (unsigned i = 0; how && !strcmp(how, "callbacks") && i < sizeof(calls) / sizeof(*calls);
	     i++)
		failed |= cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, calls[i]);
	if (failed)
		fprintf(stderr, "cupti_alone: CUPTI refuses\n");
	return 1;
}
