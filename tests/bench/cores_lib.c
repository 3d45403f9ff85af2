/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A libcuda.so.1 whose functions do nothing: the time of a call is the cost of tracing it. */
#define FN(name)                                                                                   \
	int name(void)                                                                             \
	{                                                                                          \
		return 0;                                                                          \
	}
FN(cuLaunchKernel)
FN(cuMemcpyHtoDAsync_v2)
FN(cuEventRecord)
FN(cuStreamWaitEvent)
