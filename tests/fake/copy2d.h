/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUDA_MEMCPY2D, written from scratch. */
#ifndef FAKE_COPY2D_H
#define FAKE_COPY2D_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t dptr;
typedef void *handle;

struct copy2d {
	size_t src_x, src_y;
	uint32_t src_type;
	const void *src_host;
	dptr src_device;
	handle src_array;
	size_t src_pitch, dst_x, dst_y;
	uint32_t dst_type;
	void *dst_host;
	dptr dst_device;
	handle dst_array;
	size_t dst_pitch, width, height;
};

#endif /* FAKE_COPY2D_H */
