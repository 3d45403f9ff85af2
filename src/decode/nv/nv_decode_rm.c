/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Escapes of /dev/nvidiactl and /dev/nvidiaN: cases that a table of fields cannot describe. */
#include "nv_decode.h"

#include <string.h>

#include "nv_decode_priv.h"
#include "nv_numbers.h"
#include "nv_priv.h"

#define SIZE_RM_ALLOC_SHORT 32

/*
 * The kernel reads nr, size and pointer from the block and continues as if they were the request.
 * It does this once: an XFER inside an XFER is an unknown number.
 */
static void unwrap_xfer(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	const struct nv_struct *xfer = nv_struct_by_name(d->in->abi, "nv_ioctl_xfer_t", NULL);

	out->notes |= NV_NOTE_XFER;
	nv_decode_roles(d, xfer, false);
	d->entry = &d->in->inner_entry;
	d->exit = &d->in->inner_exit;
	if (!nv_has(out, NV_R_FUNCTION) || !nv_has(out, NV_R_PARAMS_SIZE)) {
		out->name = "NV_ESC_IOCTL_XFER_CMD";
		out->params = xfer->name;
		out->layout = xfer;
		return;
	}
	out->nr = (uint32_t)out->f[NV_R_FUNCTION].v;
	out->size = (uint32_t)out->f[NV_R_PARAMS_SIZE].v;
	memset(out->f, 0, sizeof(out->f));
}

/*
 * The layout of the running version must have the size in the request. Otherwise another version's
 * layout of that size is used if there is exactly one. NVOS64 of 40 bytes and NVOS21 had two each,
 * with different offsets of the status, so no layout is used.
 */
static const struct nv_struct *layout_for(struct decode *d, const char *name)
{
	enum nv_fit fit;
	const struct nv_struct *s = nv_struct_by_name(d->in->abi, name, &fit);

	if (!s)
		return NULL;
	if (s->size == d->out->size && fit == NV_FIT_EXACT)
		return s;
	s = nv_struct_by_size(name, d->out->size);
	d->out->notes |= s ? NV_NOTE_LAYOUT_BY_SIZE : NV_NOTE_SIZE_MISMATCH;
	return s;
}

static void copy_version(char *dst, const struct nv_block *b, const struct nv_field *f)
{
	uint8_t raw[NV_VERSION_LEN];

	if (f->size != sizeof(raw) || !nv_block_read(b, f->off, f->size, raw))
		return;
	for (size_t i = 0; i + 1 < sizeof(raw) && raw[i]; i++)
		dst[i] = raw[i] >= 0x20 && raw[i] < 0x7f ? (char)raw[i] : '?';
}

static void decode_version(struct decode *d, const struct nv_struct *layout)
{
	const struct nv_field *f = nv_field_by_name(layout, "versionString");

	if (!f)
		return;
	copy_version(d->out->lib_version, d->entry, f);
	if (d->in->finished)
		copy_version(d->out->driver_version, d->exit, f);
}

static uint32_t member(const struct nv_struct *s, const char *name, const uint8_t *raw)
{
	const struct nv_field *f = nv_field_by_name(s, name);
	uint32_t v = 0;

	if (f && f->size <= sizeof(v))
		memcpy(&v, raw + f->off, f->size);
	return v;
}

static void decode_cards(struct decode *d, const struct nv_struct *s)
{
	struct nv_ioctl *out = d->out;
	uint8_t raw[128];
	uint32_t cnt = out->size / s->size;

	if (out->size % s->size || s->size > sizeof(raw)) {
		out->notes |= NV_NOTE_SIZE_MISMATCH;
		return;
	}
	for (uint32_t i = 0; i < cnt && i < NV_CARDS && d->in->finished; i++) {
		struct nv_card *c = &out->cards[i];

		if (!nv_block_read(d->exit, i * s->size, s->size, raw))
			break;
		c->valid = member(s, "valid", raw);
		c->domain = member(s, "pci_info.domain", raw);
		c->bus = (uint8_t)member(s, "pci_info.bus", raw);
		c->slot = (uint8_t)member(s, "pci_info.slot", raw);
		c->function = (uint8_t)member(s, "pci_info.function", raw);
		c->vendor_id = (uint16_t)member(s, "pci_info.vendor_id", raw);
		c->device_id = (uint16_t)member(s, "pci_info.device_id", raw);
		c->gpu_id = member(s, "gpu_id", raw);
		c->minor = member(s, "minor_number", raw);
		out->card_cnt++;
	}
	if (out->card_cnt < cnt)
		out->notes |= NV_NOTE_TRUNCATED;
}

static void decode_gpu_ids(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	uint32_t cnt = out->size / 4;

	while (out->gpu_id_cnt < cnt && out->gpu_id_cnt < NV_GPU_IDS) {
		uint32_t off = out->gpu_id_cnt * 4;
		uint32_t *id = &out->gpu_ids[out->gpu_id_cnt];

		if (!(d->in->finished && nv_block_read(d->exit, off, 4, id)) &&
		    !nv_block_read(d->entry, off, 4, id))
			break;
		out->gpu_id_cnt++;
	}
	if (out->gpu_id_cnt < cnt)
		out->notes |= NV_NOTE_TRUNCATED;
}

static void decode_control(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	uint32_t value = (uint32_t)out->f[NV_R_CONTROL].v;
	enum nv_fit fit;
	int size;

	if (!nv_has(out, NV_R_CONTROL))
		return;
	out->control = nv_rmctrl_by_value(d->in->abi, value, &fit);
	if (nv_rmctrl_is_gss_legacy(value))
		out->notes |= NV_NOTE_GSS_LEGACY;
	if (!out->control) {
		/* A GSS number and the NULL command of a class are known without a row. */
		if (!nv_rmctrl_is_gss_legacy(value) && value & 0xffff)
			out->notes |= NV_NOTE_UNKNOWN;
		return;
	}
	nv_decode_fit(out, fit);
	if (out->control->flags & NV_CTRL_UNPUB)
		out->notes |= NV_NOTE_UNPUBLISHED;
	if (fit != NV_FIT_OTHER)
		out->sched = nv_sched_by_value(value);
	size = nv_rmctrl_params_size(d->in->abi, out->control);
	if (size >= 0 && nv_has(out, NV_R_PARAMS_SIZE) &&
	    out->f[NV_R_PARAMS_SIZE].v != (uint64_t)size)
		out->notes |= NV_NOTE_PARAMS_SIZE;
}

static void decode_alloc(struct decode *d)
{
	struct nv_ioctl *out = d->out;

	if (!nv_has(out, NV_R_CLASS))
		return;
	switch (out->f[NV_R_CLASS].v) {
	case NV01_ROOT:
	case NV01_ROOT_NON_PRIV:
	case NV01_ROOT_CLIENT:
		out->notes |= NV_NOTE_NEW_CLIENT;
		out->f[NV_R_CLIENT] = out->f[NV_R_NEW];
		break;
	}
}

/*
 * The union of NVOS32 by function. struct.def has the offset and size of each arm, not its members
 * (compiled from the headers of 535.261.03). Arms begin with u32 owner, u32 hMemory; AllocOsDesc
 * begins with hMemory. AllocSize has its u64 size after eleven u32. AllocOsDesc has the u64 address
 * at 24 and the last byte's offset at 32. Drivers changed only what follows those members, as the
 * sizes in struct.def show.
 */
static void decode_heap(struct decode *d, const struct nv_struct *layout)
{
	struct nv_ioctl *out = d->out;
	const struct nv_field *arm = nv_field_by_name(layout, "data");
	uint32_t at = arm ? arm->off : 0;

	if (!arm || !nv_has(out, NV_R_FUNCTION))
		return;
	out->function = nv_heap_function_name((uint32_t)out->f[NV_R_FUNCTION].v);
	switch (out->f[NV_R_FUNCTION].v) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
		nv_decode_value(d, at + 4, 4, true, NV_R_NEW);
		nv_decode_value(d, at + 48, 8, false, NV_R_LENGTH);
		break;
	case NVOS32_FUNCTION_FREE:
		nv_decode_value(d, at + 4, 4, false, NV_R_OBJECT);
		break;
	case NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR:
		nv_decode_value(d, at, 4, true, NV_R_NEW);
		nv_decode_value(d, at + 24, 8, false, NV_R_ADDRESS);
		nv_decode_value(d, at + 32, 8, false, NV_R_LENGTH);
		if (nv_has(out, NV_R_LENGTH))
			out->f[NV_R_LENGTH].v++;
		break;
	}
}

static void decode_block(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	const struct nv_struct *s;

	if (out->nr == NV_ESC_ATTACH_GPUS_TO_FD) {
		decode_gpu_ids(d);
		return;
	}
	if (!out->params)
		return;
	if (out->nr == NV_ESC_CARD_INFO) {
		out->layout = nv_struct_by_name(d->in->abi, out->params, NULL);
		if (out->layout)
			decode_cards(d, out->layout);
		return;
	}
	s = layout_for(d, out->params);
	if (!s)
		return;
	out->layout = s;
	nv_decode_roles(d, s, false);
	switch (out->nr) {
	case NV_ESC_RM_CONTROL:
	case NV_ESC_RM_LOCKLESS_DIAGNOSTIC:
		decode_control(d);
		break;
	case NV_ESC_RM_ALLOC:
	case NV_ESC_RM_ALLOC_OBJECT:
		decode_alloc(d);
		break;
	case NV_ESC_RM_VID_HEAP_CONTROL:
		decode_heap(d, s);
		break;
	case NV_ESC_CHECK_VERSION_STR:
		decode_version(d, s);
		break;
	}
	if (nv_has(out, NV_R_CLASS))
		out->class = nv_class_by_number(d->in->abi, (uint32_t)out->f[NV_R_CLASS].v, NULL);
}

void nv_decode_rm(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	const struct nv_escape *e;
	enum nv_fit fit;

	if (out->nr == NV_ESC_IOCTL_XFER_CMD) {
		unwrap_xfer(d);
		if (out->name)
			return;
	}
	e = out->nr == NV_ESC_IOCTL_XFER_CMD ? NULL : nv_escape_by_nr(d->in->abi, out->nr, &fit);
	if (!e) {
		out->notes |= NV_NOTE_UNKNOWN;
		return;
	}
	out->name = e->name;
	out->params = e->params;
	nv_decode_fit(out, fit);
	if (!e->devs)
		out->notes |= NV_NOTE_NOT_HANDLED;
	if (out->nr == NV_ESC_RM_ALLOC && out->size == SIZE_RM_ALLOC_SHORT)
		out->params = "NVOS21_PARAMETERS";
	if (fit != NV_FIT_OTHER)
		decode_block(d);
}
