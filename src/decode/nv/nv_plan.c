/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Selects the bytes to copy from an ioctl.
 *
 * Structs of up to 256 bytes are copied completely at exit. A bigger one is copied in two parts:
 * the start (addresses, lengths), and the end, where UVM has handles and status. Copies at entry
 * serve calls that do not return, and blocks that cannot be read later. For these the start
 * suffices; the end of big structs is copied too, because it contains the handles.
 */
#include "nv_decode.h"

#include <string.h>

#include "nv_numbers.h"
#include "nv_priv.h"

#define HEAD	   64
#define TAIL	   64
#define ENTRY_MAX  80 /* CHECK_VERSION_STR is 72, UVM_MIGRATE 80 */
#define PARAMS_MAX 64

static void set_spans(struct ct_nv_plan *p, uint32_t size)
{
	uint32_t tail = size - TAIL;

	if (size <= CT_NV_SPAN_SZ_MAX) {
		p->exit[0].len = (uint16_t)size;
		p->entry[0].len = (uint16_t)(size < ENTRY_MAX ? size : ENTRY_MAX);
		return;
	}
	p->exit[0].len = HEAD;
	p->exit[1].off = (uint16_t)tail;
	p->exit[1].len = TAIL;
	memcpy(p->entry, p->exit, sizeof(p->entry));
}

/* Arrays of unknown length: as many items as fit in the decoder. */
static void set_array(struct ct_nv_plan *p, uint16_t item, uint16_t cnt)
{
	uint16_t first = (uint16_t)(CT_NV_SPAN_SZ_MAX / item);

	if (first > cnt)
		first = cnt;
	p->exit[0].len = (uint16_t)(first * item);
	p->exit[1].off = p->exit[0].len;
	p->exit[1].len = (uint16_t)((cnt - first) * item);
	if (!p->exit[1].len)
		p->exit[1].off = 0;
	p->entry[0] = p->exit[0];
}

static uint32_t layout_size(const struct nv_abi *abi, const char *name)
{
	enum nv_fit fit;
	const struct nv_struct *s = name ? nv_struct_by_name(abi, name, &fit) : NULL;

	return s && fit == NV_FIT_EXACT ? s->size : 0;
}

/* Returns whether its argument contains text: dev_name; the version. */
static bool has_text(uint32_t nr)
{
	return nr == NV_ESC_CARD_INFO || nr == NV_ESC_CHECK_VERSION_STR;
}

static bool escape_row(const struct nv_abi *abi, const struct nv_escape *e, struct ct_nv_row *row)
{
	uint32_t size = layout_size(abi, e->params);

	/* The rows contain the largest form of each struct. */
	*row = (struct ct_nv_row){
		.key = {.nr = e->nr, .dev = CT_NV_CTL},
		.plan.flags = CT_NV_PLAN_CUT,
	};
	if (e->is_short || !e->devs || nv_fit_range(abi, e->since, e->until) == NV_FIT_OTHER)
		return false;
	switch (e->nr) {
	case NV_ESC_CARD_INFO:
		if (!size)
			return false;
		set_array(&row->plan, (uint16_t)size, NV_CARDS);
		return true;
	case NV_ESC_ATTACH_GPUS_TO_FD:
		set_array(&row->plan, 4, NV_GPU_IDS);
		return true;
	case NV_ESC_IOCTL_XFER_CMD:
		row->plan.flags |= CT_NV_PLAN_XFER;
		break;
	case NV_ESC_RM_CONTROL:
		row->plan.flags |= CT_NV_PLAN_CONTROL;
		break;
	case NV_ESC_RM_ALLOC:
		/* A request of 48 bytes is NVOS64 of 535, whatever the assumed version. */
		size = 48;
		break;
	}
	if (!size)
		return false;
	set_spans(&row->plan, size);
	return true;
}

static bool uvm_row(const struct nv_abi *abi, const struct nv_uvm *u, struct ct_nv_row *row)
{
	uint32_t size = layout_size(abi, u->params);

	*row = (struct ct_nv_row){.key = {.nr = u->number, .dev = CT_NV_UVM}};
	if (u->is_test || !u->devs || nv_fit_range(abi, u->since, u->until) == NV_FIT_OTHER)
		return false;
	if (!size)
		return false;
	set_spans(&row->plan, size);
	return true;
}

static unsigned put(struct ct_nv_row *out, unsigned cap, unsigned n, const struct ct_nv_row *row)
{
	if (n < cap)
		out[n] = *row;
	return n + 1;
}

unsigned nv_plan_rows(const struct nv_abi *abi, enum ct_redact redact, struct ct_nv_row *out,
		      unsigned cap)
{
	const struct nv_escape *esc;
	const struct nv_uvm *uvm;
	struct ct_nv_row row;
	unsigned esc_cnt, uvm_cnt, n = 0;

	/* The argument contains the object and the control of an ioctl. */
	if (redact == CT_REDACT_ARGS)
		return 0;
	esc = nv_escapes(&esc_cnt);
	for (unsigned i = 0; i < esc_cnt; i++)
		if (!(redact == CT_REDACT_STRINGS && has_text(esc[i].nr)) &&
		    escape_row(abi, &esc[i], &row))
			n = put(out, cap, n, &row);
	uvm = nv_uvms(&uvm_cnt);
	for (unsigned i = 0; i < uvm_cnt; i++)
		if (uvm_row(abi, &uvm[i], &row))
			n = put(out, cap, n, &row);
	row = (struct ct_nv_row){.key.dev = CT_NV_MODESET};
	set_spans(&row.plan, layout_size(abi, "NvKmsIoctlParams"));
	return put(out, cap, n, &row);
}

unsigned nv_plan_param_rows(const struct nv_abi *abi, enum ct_redact redact,
			    struct ct_nv_params *out, unsigned cap)
{
	unsigned cnt, n = 0;
	const struct nv_sched *s = nv_scheds(&cnt);

	for (unsigned i = 0; i < cnt && redact != CT_REDACT_ARGS; i++) {
		enum nv_fit fit;
		uint32_t size = layout_size(abi, s[i].params);

		if (!nv_rmctrl_by_value(abi, s[i].value, &fit) || fit == NV_FIT_OTHER || !size)
			continue;
		if (n < cap) {
			out[n].control = s[i].value;
			out[n].len = size < PARAMS_MAX ? size : PARAMS_MAX;
		}
		n++;
	}
	return n;
}
