/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads CUPTI's activity records. Each version of a struct begins like the previous one
 * (CUpti_ActivityKernel4 to 11, Memcpy to Memcpy6, Memset to Memset4, GraphTrace, GraphTrace2;
 * CUPTI 11.0 to 13.0), so offsets suffice. GetNextRecord() has checked that the whole record is in
 * the buffer.
 */
#include "cupti.h"

#include "ct_record.h"

#include <string.h>

/* Offsets of the members in each kind; NO: the kind lacks it. */
#define NO 0xff
static const struct place {
	uint8_t kind, what;
	uint8_t start, end, device, context, stream, correlation, bytes, copy_kind, name, node,
		registers, shared_mem;
} places[] = {
	{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CT_RUN_KERNEL, 16, 24, 40, 44, 48, 92, NO, NO, 104,
	 144, 6, 76},
	{CUPTI_ACTIVITY_KIND_MEMCPY, CT_RUN_COPY, 16, 24, 32, 36, 40, 44, 8, 4, NO, 64, NO, NO},
	{CUPTI_ACTIVITY_KIND_MEMCPY2, CT_RUN_COPY, 16, 24, 32, 36, 40, 60, 8, 4, NO, 72, NO, NO},
	{CUPTI_ACTIVITY_KIND_MEMSET, CT_RUN_MEMSET, 16, 24, 32, 36, 40, 44, 8, NO, NO, 64, NO, NO},
	{CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CT_RUN_GRAPH, 8, 16, 24, 32, 36, 4, NO, NO, NO, NO, NO,
	 NO},
};

static uint32_t u32(const uint8_t *at, uint8_t place)
{
	uint32_t v = 0;

	if (place != NO)
		memcpy(&v, at + place, sizeof(v));
	return v;
}

static uint64_t u64(const uint8_t *at, uint8_t place)
{
	uint64_t v = 0;

	if (place != NO)
		memcpy(&v, at + place, sizeof(v));
	return v;
}

bool gpu_read(const uint8_t *at, struct cupti_record *r)
{
	uint32_t kind = u32(at, 0);

	for (const struct place *p = places; p < places + sizeof(places) / sizeof(*places); p++) {
		if (p->kind != kind)
			continue;
		r->what = p->what;
		r->start = u64(at, p->start);
		r->end = u64(at, p->end);
		r->device = u32(at, p->device);
		r->context = u32(at, p->context);
		r->stream = u32(at, p->stream);
		r->correlation = u32(at, p->correlation);
		r->bytes = u64(at, p->bytes);
		r->copy_kind = p->copy_kind != NO ? at[p->copy_kind] : 0;
		r->graph_node = u64(at, p->node);
		r->registers = u32(at, p->registers) & 0xffff;
		r->shared_mem = u32(at, p->shared_mem);
		r->name = (const char *)(uintptr_t)u64(at, p->name);
		return true;
	}
	return false;
}
