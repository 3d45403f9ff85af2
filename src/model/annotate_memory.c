/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory and transfers: sizes, directions, live memory. */
#include "annotate_priv.h"

#include <string.h>

#include "decode/api_values.h"

/* CUarray_format: bytes per channel. Returns 0 for other formats (block compressed, planar). */
static unsigned format_size(uint64_t format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	}
	return 0;
}

/* Reads field name of the struct that argument arg points to. */
static bool struct_field(const struct annotations *m, const struct trace_event *ev, int arg,
			 const char *name, uint64_t *val)
{
	const struct api_struct *st = m->fn->args[arg].type->st;
	const struct pointee *c;

	if (!st || m->cap[arg] < 0 || (unsigned)m->cap[arg] >= ev->cap_cnt)
		return false;
	c = &ev->caps[m->cap[arg]];
	for (unsigned i = 0; i < st->field_cnt; i++) {
		const struct api_field *f = &st->fields[i];

		if (strcmp(f->name, name))
			continue;
		if (f->type->size > sizeof(*val) || f->off + f->type->size > c->len)
			return false;
		*val = 0;
		memcpy(val, c->data + f->off, f->type->size);
		return true;
	}
	return false;
}

/* Bytes of an array without mipmaps: a lower bound, because the driver's padding is unknown. */
static bool array_size(const struct annotations *m, const struct trace_event *ev, uint64_t *size)
{
	uint64_t w, h = 0, d = 0, format, channels;

	if (m->fn->arg_cnt < 2 || !struct_field(m, ev, 1, "Width", &w) ||
	    !struct_field(m, ev, 1, "Format", &format) ||
	    !struct_field(m, ev, 1, "NumChannels", &channels) || !format_size(format))
		return false;
	struct_field(m, ev, 1, "Height", &h);
	struct_field(m, ev, 1, "Depth", &d);
	*size = w * (h ? h : 1) * (d ? d : 1) * channels * format_size(format);
	return true;
}

static void set_size(struct trace_event *ev, uint64_t size)
{
	ev->size = size;
	ev->has |= HAS_SIZE;
}

void annotate_memory(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	uint64_t pitch, height, size;

	if (m->fn->op == OP_ALLOC_PITCH && event_arg_by_name(m, ev, "pPitch", &pitch) &&
	    event_arg_by_name(m, ev, "Height", &height))
		set_size(ev, pitch * height);
	if (m->fn->op == OP_ALLOC_ARRAY && array_size(m, ev, &size))
		set_size(ev, size);
	mem__event(&p->mem, ev);
}

static bool on_device(int kind)
{
	return kind == MEM_DEVICE || kind == MEM_MANAGED || kind == MEM_NONE;
}

/* Unified addresses: a copy has a direction only if both sides are known. Memory whose allocation
 * was not recorded may belong to the host or to a device: it may be older than the trace, or
 * allocated by functions that are not traced. */
static enum copy_dir dir_between(const struct proc *p, uint64_t dst, uint64_t src)
{
	int d = mem__kind_at(&p->mem, dst), s = mem__kind_at(&p->mem, src);

	if (d < 0 || s < 0)
		return COPY_NONE;
	if (on_device(d))
		return on_device(s) ? COPY_DIR_DTOD : COPY_DIR_HTOD;
	return on_device(s) ? COPY_DIR_DTOH : COPY_DIR_HTOH;
}

static enum copy_dir dir_of_pointers(const struct annotations *m, const struct trace_event *ev,
				     const struct proc *p)
{
	uint64_t dst, src;

	if (!event_arg_by_name(m, ev, "dst", &dst) || !event_arg_by_name(m, ev, "src", &src))
		return COPY_NONE;
	return dir_between(p, dst, src);
}

/* Returns whether the copy is complete when the call returns. Copies within and between devices
 * never wait, whatever the function ("API synchronization behavior" in NVIDIA's manual). */
static bool is_done(const struct annotations *m, const struct trace_event *ev)
{
	return !m->fn->is_async && !ev->result && event_returned(ev) &&
	       (ev->dir == COPY_DIR_HTOD || ev->dir == COPY_DIR_DTOH || ev->dir == COPY_DIR_HTOH);
}

/* CUDA_MEMCPY2D and 3D */
static void from_struct(const struct annotations *m, struct trace_event *ev)
{
	uint64_t src, dst, width, height = 1, depth = 1;

	if (struct_field(m, ev, 0, "srcMemoryType", &src) &&
	    struct_field(m, ev, 0, "dstMemoryType", &dst) && src != CU_MEMORYTYPE_UNIFIED &&
	    dst != CU_MEMORYTYPE_UNIFIED) {
		static const enum copy_dir dirs[2][2] = {{COPY_DIR_DTOD, COPY_DIR_DTOH},
							 {COPY_DIR_HTOD, COPY_DIR_HTOH}};

		ev->dir = dirs[src == CU_MEMORYTYPE_HOST][dst == CU_MEMORYTYPE_HOST];
	}
	if (!struct_field(m, ev, 0, "WidthInBytes", &width))
		return;
	struct_field(m, ev, 0, "Height", &height);
	struct_field(m, ev, 0, "Depth", &depth);
	set_size(ev, width * height * depth);
}

/* Returns an array of count numbers or addresses; NULL if not all of it was read. */
static const uint8_t *array_of(const struct annotations *m, const struct trace_event *ev,
			       const char *name, uint64_t count)
{
	int arg = api_arg_by_name(m->fn, name), cap = arg < 0 ? -1 : m->cap[arg];

	if (cap < 0 || (unsigned)cap >= ev->cap_cnt || ev->caps[cap].len < 0 ||
	    count > (uint64_t)ev->caps[cap].len / 8)
		return NULL;
	return ev->caps[cap].data;
}

static uint64_t element(const uint8_t *array, uint64_t i)
{
	uint64_t x;

	memcpy(&x, array + i * 8, 8);
	return x;
}

/* cuMemcpyBatchAsync. The call has a direction if all its copies have the same one. */
static void from_batch(const struct annotations *m, struct trace_event *ev, const struct proc *p)
{
	const uint8_t *sizes, *dsts, *srcs;
	uint64_t count, sum = 0;

	if (!event_arg_by_name(m, ev, "count", &count))
		return;
	sizes = array_of(m, ev, "sizes", count);
	dsts = array_of(m, ev, "dsts", count);
	srcs = array_of(m, ev, "srcs", count);
	for (uint64_t i = 0; sizes && i < count; i++)
		sum += element(sizes, i);
	if (sizes)
		set_size(ev, sum);
	for (uint64_t i = 0; dsts && srcs && i < count; i++) {
		enum copy_dir dir = dir_between(p, element(dsts, i), element(srcs, i));

		if (i && dir != ev->dir)
			dir = COPY_NONE;
		ev->dir = dir;
		if (dir == COPY_NONE)
			break;
	}
}

/* cuMemsetD8, D16, D32: the name contains the element size. */
static void from_memset(const struct annotations *m, struct trace_event *ev)
{
	unsigned elem = strstr(m->fn->name, "D32") ? 4 : strstr(m->fn->name, "D16") ? 2 : 1;
	uint64_t n, height = 1;

	if (!event_arg_by_name(m, ev, "N", &n)) {
		if (!event_arg_by_name(m, ev, "Width", &n) ||
		    !event_arg_by_name(m, ev, "Height", &height))
			return;
	}
	set_size(ev, n * height * elem);
}

void annotate_transfer(const struct annotations *m, struct trace_event *ev, struct proc *p)
{
	switch (m->fn->op) {
	case OP_COPY:
		ev->dir = dir_of_pointers(m, ev, p);
		break;
	case OP_COPY_2D:
	case OP_COPY_3D:
	case OP_COPY_3D_PEER:
		from_struct(m, ev);
		break;
	case OP_COPY_BATCH:
		from_batch(m, ev, p);
		break;
	case OP_MEMSET:
		from_memset(m, ev);
		break;
	}
	if (op_desc[m->fn->op].dir)
		ev->dir = op_desc[m->fn->op].dir;
	if (ev->dir != COPY_NONE)
		ev->has |= HAS_DIR;
	if (is_done(m, ev) && (ev->has & HAS_SIZE) && event_duration_ns(ev)) {
		ev->bandwidth_gbps = (double)ev->size / event_duration_ns(ev);
		ev->has |= HAS_BANDWIDTH;
	}
}
