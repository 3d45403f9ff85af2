/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Identifies the command of an ioctl, the layout of its bytes, and the fields with a role.
 *
 * Fields are found by name in the layout for the running driver (struct.def), and roles.def assigns
 * their roles, so a moved offset only changes a table. Special cases are in nv_decode_rm.c.
 */
#include "nv_decode.h"

#include <string.h>

#include "nv_decode_priv.h"
#include "nv_priv.h"

enum dir { DIR_IN, DIR_OUT, DIR_MADE };

static const struct role_row {
	const char *params; /* NULL: any UVM struct */
	const char *field;
	uint8_t role, dir;
} roles[] = {
#define ROLE(s, role, field, dir)  {#s, #field, NV_R_##role, DIR_##dir},
#define UVM_ROLE(role, field, dir) {NULL, #field, NV_R_##role, DIR_##dir},
#include "roles.def"
#undef ROLE
#undef UVM_ROLE
};

bool nv_block_read(const struct nv_block *b, uint32_t off, uint32_t size, void *dst)
{
	for (unsigned i = 0; i < CT_NV_SPANS; i++) {
		const struct nv_range *r = &b->r[i];

		if (!r->data || off < r->off || r->len < size || off - r->off > r->len - size)
			continue;
		memcpy(dst, (const char *)r->data + (off - r->off), size);
		return true;
	}
	return false;
}

/* Little-endian, as x86-64 and arm64 are. */
static bool read_field(const struct nv_block *b, const struct nv_field *f, uint64_t *v)
{
	uint64_t raw = 0;

	if (f->size > sizeof(raw) || !nv_block_read(b, f->off, f->size, &raw))
		return false;
	if (f->kind == NV_KIND_INT && f->size < sizeof(raw) && raw >> (f->size * 8 - 1))
		raw |= ~0ull << (f->size * 8);
	*v = raw;
	return true;
}

/* Returns whether the driver finished, so that its output was written. */
static bool driver_wrote(const struct nv_decode_in *in)
{
	return in->finished && in->ret >= 0;
}

static void read_role(struct decode *d, const struct nv_field *f, uint8_t dir, struct nv_value *val)
{
	uint64_t v = 0;

	val->at = NV_AT_UNREADABLE;
	if (dir == DIR_OUT && !driver_wrote(d->in)) {
		val->at = NV_AT_STALE;
		return;
	}
	if (d->in->finished && read_field(d->exit, f, &v) &&
	    (dir != DIR_MADE || v || driver_wrote(d->in)))
		val->at = NV_AT_EXIT;
	else if (dir != DIR_OUT && read_field(d->entry, f, &v) && (dir != DIR_MADE || v))
		val->at = NV_AT_ENTRY;
	val->v = val->at == NV_AT_UNREADABLE ? 0 : v;
}

void nv_decode_roles(struct decode *d, const struct nv_struct *layout, bool is_uvm)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		const struct role_row *r = &roles[i];
		const struct nv_field *f;

		if (is_uvm ? r->params != NULL : !r->params || strcmp(r->params, layout->name))
			continue;
		f = nv_field_by_name(layout, r->field);
		if (f && d->out->f[r->role].at == NV_AT_NONE)
			read_role(d, f, r->dir, &d->out->f[r->role]);
	}
}

void nv_decode_value(struct decode *d, uint32_t off, uint8_t size, bool made, enum nv_role role)
{
	struct nv_field f = {.off = (uint16_t)off, .size = size, .kind = NV_KIND_UINT, .name = ""};

	read_role(d, &f, made ? DIR_MADE : DIR_IN, &d->out->f[role]);
}

void nv_decode_fit(struct nv_ioctl *out, enum nv_fit fit)
{
	if (fit == NV_FIT_OTHER)
		out->notes |= NV_NOTE_OTHER_VERSION;
	else if (fit == NV_FIT_PARTIAL)
		out->notes |= NV_NOTE_PARTIAL;
	else if (fit == NV_FIT_NONE)
		out->notes |= NV_NOTE_UNKNOWN;
}

static void name_status(const struct nv_abi *abi, struct nv_ioctl *out)
{
	if (nv_has(out, NV_R_STATUS))
		out->status_name = nv_status_name(abi, (uint32_t)out->f[NV_R_STATUS].v, NULL);
}

static void read_uuid(struct decode *d, const struct nv_struct *layout)
{
	/* The processor that a command refers to; if there are two, the first. */
	static const char *const names[] = {
		"gpuUuid",	  "gpu_uuid", "destinationUuid", "preferredLocation",
		"accessedByUuid", "gpuUuidA", "processor",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct nv_field *f = nv_field_by_name(layout, names[i]);

		if (!f || f->size != sizeof(d->out->uuid))
			continue;
		if (d->in->finished && nv_block_read(d->exit, f->off, f->size, d->out->uuid))
			d->out->uuid_at = NV_AT_EXIT;
		else if (nv_block_read(d->entry, f->off, f->size, d->out->uuid))
			d->out->uuid_at = NV_AT_ENTRY;
		else
			d->out->uuid_at = NV_AT_UNREADABLE;
		return;
	}
}

static void decode_uvm(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	enum nv_fit fit;
	const struct nv_uvm *u = nv_uvm_by_number(d->in->abi, out->nr, &fit);
	const struct nv_struct *layout;

	out->size = 0;
	if (!u) {
		out->notes |= NV_NOTE_UNKNOWN;
		return;
	}
	out->name = u->name;
	out->params = u->params;
	if (u->is_test)
		out->notes |= NV_NOTE_TEST;
	nv_decode_fit(out, fit);
	if (!u->devs)
		out->notes |= NV_NOTE_NOT_HANDLED;
	if (!u->params || fit == NV_FIT_OTHER)
		return;
	layout = nv_struct_by_name(d->in->abi, u->params, &fit);
	if (!layout || fit != NV_FIT_EXACT)
		return;
	out->layout = layout;
	out->size = layout->size;
	nv_decode_roles(d, layout, true);
	read_uuid(d, layout);
}

static void decode_kms(struct decode *d)
{
	struct nv_ioctl *out = d->out;
	enum nv_fit fit;

	out->params = "NvKmsIoctlParams";
	out->layout = nv_struct_by_name(d->in->abi, out->params, NULL);
	if (!out->layout || out->size != out->layout->size) {
		out->notes |= NV_NOTE_SIZE_MISMATCH;
		out->layout = NULL;
		return;
	}
	nv_decode_roles(d, out->layout, false);
	/* The request number is always the same: the block contains the command. */
	if (!nv_has(out, NV_R_FUNCTION))
		return;
	out->nr = (uint32_t)out->f[NV_R_FUNCTION].v;
	out->name = nv_kms_name(d->in->abi, out->nr, &fit);
	nv_decode_fit(out, fit);
}

static uint32_t version_notes(const struct nv_abi *abi)
{
	switch (abi->known) {
	case NV_KNOWN_NEWER:
		return NV_NOTE_NEWER;
	case NV_KNOWN_OLDER:
		return NV_NOTE_OLDER;
	case NV_KNOWN_NOTHING:
		return NV_NOTE_NO_VERSION;
	default:
		return 0;
	}
}

void nv_decode_ioctl(const struct nv_decode_in *in, struct nv_ioctl *out)
{
	struct decode d = {.in = in, .out = out, .entry = &in->entry, .exit = &in->exit};

	memset(out, 0, sizeof(*out));
	out->dev = in->dev;
	out->notes = version_notes(in->abi);
	out->nr = in->cmd & 0xff;
	out->size = in->cmd >> 16 & 0x3fff;
	switch (ct_nv_commands_of(in->dev)) {
	case CT_NV_CTL:
		nv_decode_rm(&d);
		break;
	case CT_NV_UVM:
		out->nr = in->cmd;
		decode_uvm(&d);
		break;
	case CT_NV_MODESET:
		decode_kms(&d);
		break;
	default:
		out->nr = in->cmd;
		out->notes |= NV_NOTE_UNKNOWN;
		break;
	}
	name_status(in->abi, out);
}
