/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUPTI's activity records: no read exceeds the record (sizes of CUDA 11.8). */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "../../inject/cupti_record.c"

static size_t size_of(uint32_t kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return 176;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return 80;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return 88;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return 80;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return 40;
	default:
		return sizeof(kind);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cupti_record r;
	uint32_t kind = 0;
	uint8_t *rec;
	size_t len;

	memcpy(&kind, data, size < sizeof(kind) ? size : sizeof(kind));
	len = size_of(kind);
	/* No memory behind it may be read. */
	rec = calloc(1, len);
	assert(rec);
	memcpy(rec, data, size < len ? size : len);
	memcpy(rec, &kind, sizeof(kind));
	if (gpu_read(rec, &r))
		assert(len > sizeof(kind) && r.what < CT_RUN_WHAT_CNT);
	else
		assert(len == sizeof(kind));
	free(rec);
	return 0;
}
