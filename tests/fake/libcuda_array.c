/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Mock libcuda: arrays. Rows of bytes, one after another, outside the device's memory. */
#include "libcuda.h"

#include <stdlib.h>

struct array_desc {
	size_t width, height;
	uint32_t format, channels;
};

struct array3d_desc {
	size_t width, height, depth;
	uint32_t format, channels, flags;
};

static size_t format_sz(uint32_t format)
{
	/* CUarray_format: 8, 16 and 32 bits wide for 1 to 3 and 8 to 10; half, float. */
	switch (format) {
	case 0x02:
	case 0x09:
	case 0x10:
		return 2;
	case 0x03:
	case 0x0a:
	case 0x20:
		return 4;
	default:
		return 1;
	}
}

static int array_create(uint64_t out, const struct array3d_desc *d)
{
	struct array *a;

	if (!d->width || !d->channels || d->channels > 4)
		return E_VALUE;
	a = obj_new(OBJ_ARRAY, sizeof(*a));
	a->row_sz = d->width * d->channels * format_sz(d->format);
	a->height = d->height ? d->height : 1;
	a->depth = d->depth ? d->depth : 1;
	a->data = calloc(a->row_sz * a->height, a->depth);
	if (!a->data || put64(out, (uintptr_t)a)) {
		free(a->data);
		obj_free(a);
		return E_VALUE;
	}
	return OK;
}

static int run_array_create(struct call *c)
{
	const struct array_desc *d = (const void *)(uintptr_t)c->w[1];

	if (!readable(c->w[1], sizeof(*d)))
		return E_VALUE;
	return array_create(
		c->w[0], &(struct array3d_desc){d->width, d->height, 0, d->format, d->channels, 0});
}

static int run_array3d_create(struct call *c)
{
	if (!readable(c->w[1], sizeof(struct array3d_desc)))
		return E_VALUE;
	return array_create(c->w[0], (const void *)(uintptr_t)c->w[1]);
}

static int run_array_destroy(struct call *c)
{
	struct array *a = obj_get(c->w[0], OBJ_ARRAY);

	if (!a)
		return E_HANDLE;
	free(a->data);
	obj_free(a);
	return OK;
}

const struct impl impl_array[] = {
	{"cuArrayCreate_v2", run_array_create, IMPL_CONTEXT},
	{"cuArray3DCreate_v2", run_array3d_create, IMPL_CONTEXT},
	{"cuArrayDestroy", run_array_destroy, IMPL_CONTEXT},
	{NULL, NULL, 0},
};
