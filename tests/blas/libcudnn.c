/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mocks of libcudnn_graph, libcudnn_ops and libcudnn_cnn, by what is defined of GRAPH, OPS and
 * CNN: what is executed is a memset of the device. Without a variant pack a plan calls cuBLAS. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"), noinline))

int cuMemsetD8Async(uint64_t p, unsigned char x, size_t n, void *stream);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int,
		   const float *, int, const float *, float *, int);

#ifdef GRAPH
EXPORT int cudnnBackendCreateDescriptor(int type, void **desc)
{
	*desc = malloc(64);
	return 0;
}

EXPORT int cudnnBackendSetAttribute(void *desc, int attr, int type, int64_t cnt, const void *arr)
{
	return desc && arr ? 0 : 2000;
}

EXPORT int cudnnBackendGetAttribute(void *desc, int attr, int type, int64_t wants, int64_t *cnt,
				    void *arr)
{
	*cnt = 1;
	return 0;
}

EXPORT int cudnnBackendFinalize(void *desc)
{
	return 0;
}

EXPORT int cudnnBackendDestroyDescriptor(void *desc)
{
	free(desc);
	return 0;
}

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
	static float one = 1, c[4];

	if (!handle)
		return 2000;
	return pack ? cuMemsetD8Async(*(uint64_t *)handle, 0, 64, NULL)
		    : cublasSgemm_v2(handle, 0, 0, 2, 2, 2, &one, c, 2, c, 2, &one,
				     *(float **)handle, 2);
}
#endif

#ifdef OPS
EXPORT int cudnnSetTensor4dDescriptor(void *desc, int format, int type, int n, int c, int h, int w)
{
	return 0;
}

EXPORT int cudnnSetTensorNdDescriptor(void *desc, int type, int cnt, const int *dims,
				      const int *strides)
{
	return 0;
}

EXPORT int cudnnSetFilter4dDescriptor(void *desc, int type, int format, int k, int c, int h, int w)
{
	return 0;
}
#endif

#ifdef CNN
EXPORT int cudnnSetConvolution2dDescriptor(void *desc, int pad_h, int pad_w, int u, int v, int dh,
					   int dw, int mode, int compute)
{
	return 0;
}

EXPORT int cudnnConvolutionForward(void *handle, const void *alpha, void *xd, const void *x,
				   void *wd, const void *w, void *how, int algo, void *space,
				   size_t size, const void *beta, void *yd, void *y)
{
	return handle ? cuMemsetD8Async(*(uint64_t *)handle, 0, 64, NULL) : 2000;
}

EXPORT int cudnnConvolutionBackwardData(void *handle, const void *alpha, void *wd, const void *w,
					void *dyd, const void *dy, void *how, int algo, void *space,
					size_t size, const void *beta, void *dxd, void *dx)
{
	return handle ? cuMemsetD8Async(*(uint64_t *)handle, 0, 64, NULL) : 2000;
}

EXPORT int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, void *xd, const void *x,
					  void *dyd, const void *dy, void *how, int algo,
					  void *space, size_t size, const void *beta, void *dwd,
					  void *dw)
{
	return handle ? cuMemsetD8Async(*(uint64_t *)handle, 0, 64, NULL) : 2000;
}

EXPORT int cudnnConvolutionBiasActivationForward(void *handle, const void *a1, void *xd,
						 const void *x, void *wd, const void *w, void *how,
						 int algo, void *space, size_t size, const void *a2,
						 void *zd, const void *z, void *bd, const void *b,
						 void *act, void *yd, void *y)
{
	return handle ? cuMemsetD8Async(*(uint64_t *)handle, 0, 64, NULL) : 2000;
}
#endif
