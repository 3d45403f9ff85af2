/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mock libcuda: copies and memset. Bytes move during the call, which programs cannot
 * notice, since kernels change nothing; on the timeline an asynchronous copy takes its time.
 */
#include "libcuda.h"

#include <stdlib.h>
#include <string.h>

#define COPY_LATENCY_NS 1500

/* Bytes per ns: of pinned memory, and of pageable memory; 0: as of pinned memory. */
static const double *copy_rates(void)
{
	static double rates[2];
	const char *s = getenv("FAKE_COPY_GBPS");

	if (!rates[0]) {
		rates[1] = s && strchr(s, ',') ? strtod(strchr(s, ',') + 1, NULL) : 0;
		rates[0] = s ? strtod(s, NULL) : 25;
	}
	return rates;
}

bool copy_is_slow(const struct work *w)
{
	return w->kind == WORK_COPY && copy_rates()[1] > 0 &&
	       (mem_is_pageable(w->dst) || mem_is_pageable(w->src));
}

uint64_t copy_ns(const struct work *w)
{
	return COPY_LATENCY_NS + (uint64_t)((double)w->size * (w->height ? w->height : 1) /
					    copy_rates()[copy_is_slow(w)]);
}

/* A side of cuMemcpy3D; cuMemcpy2D is converted to it. */
struct side {
	uint64_t x, y, z, lod;
	uint32_t type; /* CUmemorytype */
	uint64_t host, device, array, reserved, pitch, height;
};

struct copy3d {
	struct side src, dst;
	uint64_t width, height, depth;
};
_Static_assert(sizeof(struct copy3d) == 200, "CUDA_MEMCPY3D");

struct copy2d {
	uint64_t src_x, src_y;
	uint32_t src_type;
	uint64_t src_host, src_device, src_array, src_pitch;
	uint64_t dst_x, dst_y;
	uint32_t dst_type;
	uint64_t dst_host, dst_device, dst_array, dst_pitch;
	uint64_t width, height;
};
_Static_assert(sizeof(struct copy2d) == 128, "CUDA_MEMCPY2D");

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_ARRAY = 3, TYPE_UNIFIED = 4 };

static bool is_device(const struct side *s)
{
	return s->type == TYPE_UNIFIED ? !mem_is_host(s->device) : s->type != TYPE_HOST;
}

uint8_t copy_kind(const struct work *w)
{
	bool to = !mem_is_host(w->dst), from = !mem_is_host(w->src);
	struct copy3d p;

	if (w->kind == WORK_COPY2D) {
		memcpy(&p, w->params, sizeof(p));
		to = is_device(&p.dst);
		from = is_device(&p.src);
	}
	return to && from ? 8 : to ? 1 : from ? 2 : 9;
}

static void from_2d(const struct copy2d *p, struct copy3d *q)
{
	*q = (struct copy3d){
		.src = {p->src_x, p->src_y, 0, 0, p->src_type, p->src_host, p->src_device,
			p->src_array, 0, p->src_pitch, p->height},
		.dst = {p->dst_x, p->dst_y, 0, 0, p->dst_type, p->dst_host, p->dst_device,
			p->dst_array, 0, p->dst_pitch, p->height},
		.width = p->width,
		.height = p->height,
		.depth = 1,
	};
}

/* Start of the side's bytes; fills pitch and height if they are 0. NULL: invalid. */
static unsigned char *side_base(struct side *s, const struct copy3d *p)
{
	struct array *a;
	uint64_t base;

	switch (s->type) {
	case TYPE_HOST:
		base = s->host;
		break;
	case TYPE_DEVICE:
	case TYPE_UNIFIED:
		base = s->device;
		break;
	case TYPE_ARRAY:
		a = obj_get(s->array, OBJ_ARRAY);
		if (!a || s->x + p->width > a->row_sz || s->y + p->height > a->height ||
		    s->z + p->depth > a->depth)
			return NULL;
		s->pitch = a->row_sz;
		s->height = a->height;
		base = (uintptr_t)a->data;
		break;
	default:
		return NULL;
	}
	if (!s->pitch)
		s->pitch = s->x + p->width;
	if (!s->height)
		s->height = s->y + p->height;
	if (!base || s->pitch < p->width)
		return NULL;
	base += (s->z * s->height + s->y) * s->pitch + s->x;
	if (s->type != TYPE_ARRAY && p->height && p->depth &&
	    !mem_plausible(base,
			   ((p->depth - 1) * s->height + p->height - 1) * s->pitch + p->width))
		return NULL;
	if (s->type == TYPE_DEVICE && !mem_is_device(base, p->width))
		return NULL;
	return (unsigned char *)(uintptr_t)base;
}

static int copy3d_check(struct copy3d *p, unsigned char **dst, unsigned char **src)
{
	*src = side_base(&p->src, p);
	*dst = side_base(&p->dst, p);
	return *src && *dst ? OK : E_VALUE;
}

void copy2d_run(const uint64_t *params)
{
	struct copy3d p;
	unsigned char *dst, *src;

	memcpy(&p, params, sizeof(p));
	if (copy3d_check(&p, &dst, &src))
		return;
	for (uint64_t z = 0; z < p.depth; z++)
		for (uint64_t y = 0; y < p.height; y++)
			memmove(dst + (z * p.dst.height + y) * p.dst.pitch,
				src + (z * p.src.height + y) * p.src.pitch, p.width);
}

static int copy3d(struct call *c, const struct copy3d *p, bool async, unsigned stream_arg)
{
	struct stream *s = stream_of(c, async ? c->w[stream_arg] : 0);
	struct work w = {.kind = WORK_COPY2D, .size = p->width * p->height * p->depth};
	struct copy3d checked = *p;
	unsigned char *dst, *src;
	int err;

	if (!s)
		return E_HANDLE;
	err = copy3d_check(&checked, &dst, &src);
	if (err)
		return err;
	memcpy(w.params, &checked, sizeof(checked));
	if (async)
		return work_submit(s, &w);
	if (s->capture)
		return E_CAPTURE;
	err = work_submit(s, &w);
	stream_wait(s);
	return err;
}

static bool is_async(const struct call *c)
{
	return strstr(c->fn->symbol, "Async") != NULL;
}

static int run_copy2d(struct call *c)
{
	struct copy2d q;
	struct copy3d p;

	if (!readable(c->w[0], sizeof(q)))
		return E_VALUE;
	memcpy(&q, (void *)(uintptr_t)c->w[0], sizeof(q));
	from_2d(&q, &p);
	return copy3d(c, &p, is_async(c), 1);
}

static int run_copy3d(struct call *c)
{
	struct copy3d p;

	if (!readable(c->w[0], sizeof(p)))
		return E_VALUE;
	memcpy(&p, (void *)(uintptr_t)c->w[0], sizeof(p));
	return copy3d(c, &p, is_async(c), 1);
}

/* One linear copy; the letters in the function's name give which sides must be device memory. */
static int copy(struct call *c, uint64_t dst, uint64_t src, size_t size, bool dst_dev, bool src_dev,
		int stream_arg)
{
	struct stream *s = stream_of(c, stream_arg < 0 ? 0 : c->w[stream_arg]);
	struct work w = {.kind = WORK_COPY, .dst = dst, .src = src, .size = size};
	int err;

	if (!s)
		return E_HANDLE;
	if (!size)
		return OK;
	if (dst_dev ? !mem_is_device(dst, size) : !mem_plausible(dst, size))
		return E_VALUE;
	if (src_dev ? !mem_is_device(src, size) : !mem_plausible(src, size))
		return E_VALUE;
	if (stream_arg < 0 && s->capture)
		return E_CAPTURE;
	err = work_submit(s, &w);
	if (stream_arg < 0 || (!s->capture && copy_is_slow(&w)))
		stream_wait(s);
	return err;
}

#define COPY(name, dst_dev, src_dev)                                                               \
	static int run_##name(struct call *c)                                                      \
	{                                                                                          \
		return copy(c, c->w[0], c->w[1], c->w[2], dst_dev, src_dev, is_async(c) ? 3 : -1); \
	}
COPY(any, false, false)
COPY(htod, true, false)
COPY(dtoh, false, true)
COPY(dtod, true, true)

static int run_peer(struct call *c)
{
	return copy(c, c->w[0], c->w[2], c->w[4], true, true, is_async(c) ? 5 : -1);
}

/* (dsts, srcs, sizes, count, ..., stream): the stream is the last argument. */
static int run_batch(struct call *c)
{
	const uint64_t *dst = (const void *)(uintptr_t)c->w[0];
	const uint64_t *src = (const void *)(uintptr_t)c->w[1];
	const uint64_t *size = (const void *)(uintptr_t)c->w[2];
	size_t cnt = c->w[3];
	int err = OK;

	if (!cnt || cnt > 1 << 20 || !readable(c->w[0], 8) || !readable(c->w[1], 8) ||
	    !readable(c->w[2], 8))
		return E_VALUE;
	for (size_t i = 0; i < cnt && !err; i++)
		err = copy(c, dst[i], src[i], size[i], false, false, c->fn->arg_cnt - 1);
	return err;
}

/* Copies between a one-dimensional array and linear memory: array, offset. */
static int linear(struct call *c, unsigned array_arg, unsigned other_arg, size_t size,
		  bool to_array, int stream_arg)
{
	struct array *a = obj_get(c->w[array_arg], OBJ_ARRAY);
	uint64_t off = c->w[array_arg + 1], there;

	if (!a)
		return E_HANDLE;
	if (off > a->row_sz || size > a->row_sz - off)
		return E_VALUE;
	there = (uintptr_t)a->data + off;
	return to_array ? copy(c, there, c->w[other_arg], size, false, false, stream_arg)
			: copy(c, c->w[other_arg], there, size, false, false, stream_arg);
}

static int run_to_array(struct call *c)
{
	return linear(c, 0, 2, c->w[3], true, is_async(c) ? 4 : -1);
}

static int run_from_array(struct call *c)
{
	return linear(c, 1, 0, c->w[3], false, is_async(c) ? 4 : -1);
}

/* Width in bytes of the value that a memset writes: from the 8, 16 or 32 in its name. */
static unsigned memset_width(const struct call *c)
{
	const char *d = strrchr(c->fn->name, 'D');

	return d[1] == '8' ? 1 : d[1] == '1' ? 2 : 4;
}

static int fill(struct call *c, const struct work *w, int stream_arg)
{
	struct stream *s = stream_of(c, stream_arg < 0 ? 0 : c->w[stream_arg]);

	if (!s)
		return E_HANDLE;
	if (!w->size || !w->height)
		return OK;
	if (!mem_is_device(w->dst, (w->height - 1) * w->pitch + w->size))
		return E_VALUE;
	if (stream_arg < 0 && s->capture)
		return E_CAPTURE;
	/* Like the driver's: even cuMemsetD8 returns before the device is done. */
	return work_submit(s, w);
}

static int run_memset(struct call *c)
{
	struct work w = {
		.kind = WORK_MEMSET,
		.dst = c->w[0],
		.value = c->w[1],
		.width = memset_width(c),
		.height = 1,
	};

	w.size = c->w[2] * w.width;
	return fill(c, &w, is_async(c) ? 3 : -1);
}

static int run_memset2d(struct call *c)
{
	struct work w = {
		.kind = WORK_MEMSET,
		.dst = c->w[0],
		.pitch = c->w[1],
		.value = c->w[2],
		.width = memset_width(c),
		.height = c->w[4],
	};

	w.size = c->w[3] * w.width;
	return fill(c, &w, is_async(c) ? 5 : -1);
}

static int run_prefetch(struct call *c)
{
	struct stream *s = stream_of(c, c->w[c->fn->arg_cnt - 1]);

	if (!s)
		return E_HANDLE;
	if (!mem_is_device(c->w[0], c->w[1]))
		return E_VALUE;
	stream_add(s, copy_ns(&(struct work){.size = c->w[1]}));
	return OK;
}

const struct impl impl_copy[] = {
	{"cuMemcpy", run_any, IMPL_CONTEXT},
	{"cuMemcpyAsync", run_any, IMPL_CONTEXT},
	{"cuMemcpyHtoD_v2", run_htod, IMPL_CONTEXT},
	{"cuMemcpyHtoDAsync_v2", run_htod, IMPL_CONTEXT},
	{"cuMemcpyDtoH_v2", run_dtoh, IMPL_CONTEXT},
	{"cuMemcpyDtoHAsync_v2", run_dtoh, IMPL_CONTEXT},
	{"cuMemcpyDtoD_v2", run_dtod, IMPL_CONTEXT},
	{"cuMemcpyDtoDAsync_v2", run_dtod, IMPL_CONTEXT},
	{"cuMemcpyPeer", run_peer, IMPL_CONTEXT},
	{"cuMemcpyPeerAsync", run_peer, IMPL_CONTEXT},
	{"cuMemcpyBatchAsync", run_batch, IMPL_CONTEXT},
	{"cuMemcpyBatchAsync_v2", run_batch, IMPL_CONTEXT},
	{"cuMemcpyHtoA_v2", run_to_array, IMPL_CONTEXT},
	{"cuMemcpyHtoAAsync_v2", run_to_array, IMPL_CONTEXT},
	{"cuMemcpyDtoA_v2", run_to_array, IMPL_CONTEXT},
	{"cuMemcpyAtoH_v2", run_from_array, IMPL_CONTEXT},
	{"cuMemcpyAtoHAsync_v2", run_from_array, IMPL_CONTEXT},
	{"cuMemcpyAtoD_v2", run_from_array, IMPL_CONTEXT},
	{"cuMemcpy2D_v2", run_copy2d, IMPL_CONTEXT},
	{"cuMemcpy2DUnaligned_v2", run_copy2d, IMPL_CONTEXT},
	{"cuMemcpy2DAsync_v2", run_copy2d, IMPL_CONTEXT},
	{"cuMemcpy3D_v2", run_copy3d, IMPL_CONTEXT},
	{"cuMemcpy3DAsync_v2", run_copy3d, IMPL_CONTEXT},
	{"cuMemsetD8_v2", run_memset, IMPL_CONTEXT},
	{"cuMemsetD16_v2", run_memset, IMPL_CONTEXT},
	{"cuMemsetD32_v2", run_memset, IMPL_CONTEXT},
	{"cuMemsetD8Async", run_memset, IMPL_CONTEXT},
	{"cuMemsetD16Async", run_memset, IMPL_CONTEXT},
	{"cuMemsetD32Async", run_memset, IMPL_CONTEXT},
	{"cuMemsetD2D8_v2", run_memset2d, IMPL_CONTEXT},
	{"cuMemsetD2D16_v2", run_memset2d, IMPL_CONTEXT},
	{"cuMemsetD2D32_v2", run_memset2d, IMPL_CONTEXT},
	{"cuMemsetD2D8Async", run_memset2d, IMPL_CONTEXT},
	{"cuMemsetD2D16Async", run_memset2d, IMPL_CONTEXT},
	{"cuMemsetD2D32Async", run_memset2d, IMPL_CONTEXT},
	{"cuMemPrefetchAsync", run_prefetch, IMPL_CONTEXT},
	{"cuMemPrefetchAsync_v2", run_prefetch, IMPL_CONTEXT},
	{NULL, NULL, 0},
};
