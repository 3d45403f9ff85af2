/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The part of the driver API that sample.c uses, written from scratch. */
#ifndef FAKE_SAMPLE_H
#define FAKE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "copy2d.h"

struct launch_attr {
	uint32_t id, pad;
	union {
		uint32_t cluster[3];
		char room[64];
	};
};

struct launch_config {
	uint32_t grid[3], block[3], shared_mem_sz;
	handle stream;
	struct launch_attr *attrs;
	uint32_t attr_cnt;
};

/* must: required by the program; may: added by later drivers. */
/* clang-format off */
#define FUNCTIONS(must, may)                                                                       \
	must(cuInit, (unsigned))                                                                   \
	must(cuDriverGetVersion, (int *))                                                          \
	must(cuGetErrorName, (int, const char **))                                                 \
	must(cuDeviceGetCount, (int *))                                                            \
	must(cuDeviceGet, (int *, int))                                                            \
	must(cuDeviceGetName, (char *, int, int))                                                  \
	must(cuDeviceTotalMem_v2, (size_t *, int))                                                 \
	must(cuDeviceGetAttribute, (int *, int, int))                                              \
	must(cuDevicePrimaryCtxRetain, (handle *, int))                                            \
	must(cuDevicePrimaryCtxRelease_v2, (int))                                                  \
	must(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                 \
	must(cuCtxSetCurrent, (handle))                                                            \
	must(cuCtxGetCurrent, (handle *))                                                          \
	must(cuCtxGetDevice, (int *))                                                              \
	must(cuCtxSynchronize, (void))                                                             \
	must(cuMemGetInfo_v2, (size_t *, size_t *))                                                \
	must(cuMemAlloc_v2, (dptr *, size_t))                                                      \
	must(cuMemAllocPitch_v2, (dptr *, size_t *, size_t, size_t, unsigned))                     \
	must(cuMemFree_v2, (dptr))                                                                 \
	must(cuMemHostAlloc, (void **, size_t, unsigned))                                          \
	must(cuMemFreeHost, (void *))                                                              \
	must(cuMemcpyHtoD_v2, (dptr, const void *, size_t))                                        \
	must(cuMemcpyDtoH_v2, (void *, dptr, size_t))                                              \
	must(cuMemcpyHtoDAsync_v2, (dptr, const void *, size_t, handle))                           \
	must(cuMemcpyDtoHAsync_v2, (void *, dptr, size_t, handle))                                 \
	must(cuMemcpyDtoDAsync_v2, (dptr, dptr, size_t, handle))                                   \
	must(cuMemcpy2D_v2, (const struct copy2d *))                                               \
	must(cuMemsetD8_v2, (dptr, unsigned char, size_t))                                         \
	must(cuMemsetD32Async, (dptr, unsigned, size_t, handle))                                   \
	must(cuModuleLoadData, (handle *, const void *))                                           \
	must(cuModuleGetFunction, (handle *, handle, const char *))                                \
	must(cuModuleUnload, (handle))                                                             \
	must(cuStreamCreate, (handle *, unsigned))                                                 \
	must(cuStreamDestroy_v2, (handle))                                                         \
	must(cuStreamSynchronize, (handle))                                                        \
	must(cuStreamQuery, (handle))                                                              \
	must(cuStreamWaitEvent, (handle, handle, unsigned))                                        \
	must(cuStreamIsCapturing, (handle, int *))                                                 \
	must(cuStreamBeginCapture_v2, (handle, int))                                               \
	must(cuStreamEndCapture, (handle, handle *))                                               \
	must(cuEventCreate, (handle *, unsigned))                                                  \
	must(cuEventDestroy_v2, (handle))                                                          \
	must(cuEventRecord, (handle, handle))                                                      \
	must(cuEventSynchronize, (handle))                                                         \
	must(cuEventElapsedTime, (float *, handle, handle))                                        \
	must(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
			      unsigned, handle, void **, void **))                                 \
	must(cuGraphDestroy, (handle))                                                             \
	must(cuGraphExecDestroy, (handle))                                                         \
	must(cuGraphLaunch, (handle, handle))                                                      \
	may(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long))                   \
	may(cuMemAllocAsync, (dptr *, size_t, handle))                                             \
	may(cuMemFreeAsync, (dptr, handle))                                                        \
	may(cuLaunchKernelEx, (const struct launch_config *, handle, void **, void **))            \
	may(cuLibraryLoadData,                                                                     \
	    (handle *, const void *, void *, void *, unsigned, void *, void *, unsigned))          \
	may(cuLibraryGetKernel, (handle *, handle, const char *))                                  \
	may(cuKernelGetFunction, (handle *, handle))                                               \
	may(cuLibraryUnload, (handle))
/* clang-format on */

#endif /* FAKE_SAMPLE_H */
