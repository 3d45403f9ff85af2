/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF side copies.
 *
 * Up to 256 bytes a struct is copied whole at exit; of a bigger one the beginning (addresses,
 * lengths) and the end, where UVM keeps handles and status. At entry, which matters for calls that
 * do not return and for blocks that can't be read later, the beginning is enough; of big ones the
 * end too, since the handles are there.
 */
#include "nv_decode.h"

#include <string.h>

#include "nv_priv.h"

#define HEAD	   64
#define TAIL	   64
#define ENTRY_MAX  80 /* CHECK_VERSION_STR is 72, UVM_MIGRATE 80 */
#define PARAMS_MAX 64

static void set_spans(struct nv_capture *c, uint32_t size)
{
	uint32_t tail = size - TAIL;

	if (size <= NV_CAPTURE_MAX) {
		c->exit[0].len = (uint16_t)size;
		c->entry[0].len = (uint16_t)(size < ENTRY_MAX ? size : ENTRY_MAX);
		return;
	}
	c->exit[0].len = HEAD;
	c->exit[1].off = (uint16_t)tail;
	c->exit[1].len = TAIL;
	memcpy(c->entry, c->exit, sizeof(c->entry));
}

/* Arrays of unknown length: as much as the decoder has room for. */
static void set_array(struct nv_capture *c, uint16_t item, uint16_t cnt)
{
	uint16_t first = (uint16_t)(NV_CAPTURE_MAX / item);

	if (first > cnt)
		first = cnt;
	c->exit[0].len = (uint16_t)(first * item);
	c->exit[1].off = c->exit[0].len;
	c->exit[1].len = (uint16_t)((cnt - first) * item);
	if (!c->exit[1].len)
		c->exit[1].off = 0;
	c->entry[0] = c->exit[0];
}

static uint32_t layout_size(const struct nv_abi *abi, const char *name)
{
	enum nv_fit fit;
	const struct nv_struct *s = name ? nv_struct_by_name(abi, name, &fit) : NULL;

	return s && fit == NV_FIT_EXACT ? s->size : 0;
}

static bool escape_row(const struct nv_abi *abi, const struct nv_escape *e, struct nv_capture *c)
{
	uint32_t size = layout_size(abi, e->params);

	memset(c, 0, sizeof(*c));
	c->dev = NV_PLAN_RM;
	c->nr = e->nr;
	if (e->is_short || !e->devs || nv_fit_range(abi, e->since, e->until) == NV_FIT_OTHER)
		return false;
	if (e->nr == 0xc8) { /* CARD_INFO */
		set_array(c, (uint16_t)size, NV_CARDS);
		c->flags = NV_PLAN_TEXT;
		return size != 0;
	}
	if (e->nr == 0xd4) { /* ATTACH_GPUS_TO_FD */
		set_array(c, 4, NV_GPU_IDS);
		return true;
	}
	if (e->nr == 0xd3)
		c->flags = NV_PLAN_XFER;
	if (e->nr == 0xd2) /* CHECK_VERSION_STR; CARD_INFO, above, has a dev_name */
		c->flags = NV_PLAN_TEXT;
	/* Whatever the version is taken to be, a request of 48 bytes is NVOS64 of 535. */
	if (e->nr == 0x2b)
		size = 48;
	if (!size)
		return false;
	set_spans(c, size);
	return true;
}

static bool uvm_row(const struct nv_abi *abi, const struct nv_uvm *u, struct nv_capture *c)
{
	uint32_t size = layout_size(abi, u->params);

	memset(c, 0, sizeof(*c));
	c->dev = NV_PLAN_UVM;
	c->nr = u->number;
	if (u->is_test || !u->devs || nv_fit_range(abi, u->since, u->until) == NV_FIT_OTHER)
		return false;
	if (!size)
		return false;
	set_spans(c, size);
	return true;
}

static unsigned put(struct nv_capture *out, unsigned cap, unsigned n, const struct nv_capture *c)
{
	if (n < cap)
		out[n] = *c;
	return n + 1;
}

unsigned nv_capture_plan(const struct nv_abi *abi, struct nv_capture *out, unsigned cap)
{
	const struct nv_escape *esc;
	const struct nv_uvm *uvm;
	struct nv_capture c;
	unsigned esc_cnt, uvm_cnt, n = 0;

	esc = nv_escapes(&esc_cnt);
	for (unsigned i = 0; i < esc_cnt; i++)
		if (escape_row(abi, &esc[i], &c))
			n = put(out, cap, n, &c);
	uvm = nv_uvms(&uvm_cnt);
	for (unsigned i = 0; i < uvm_cnt; i++)
		if (uvm_row(abi, &uvm[i], &c))
			n = put(out, cap, n, &c);
	memset(&c, 0, sizeof(c));
	c.dev = NV_PLAN_KMS;
	set_spans(&c, layout_size(abi, "NvKmsIoctlParams"));
	return put(out, cap, n, &c);
}

unsigned nv_params_plan(const struct nv_abi *abi, struct nv_params_capture *out, unsigned cap)
{
	unsigned cnt, n = 0;
	const struct nv_sched *s = nv_scheds(&cnt);

	for (unsigned i = 0; i < cnt; i++) {
		enum nv_fit fit;
		uint32_t size = layout_size(abi, s[i].params);

		if (!nv_rmctrl_by_value(abi, s[i].value, &fit) || fit == NV_FIT_OTHER || !size)
			continue;
		if (n < cap) {
			out[n].control = s[i].value;
			out[n].len = (uint16_t)(size < PARAMS_MAX ? size : PARAMS_MAX);
		}
		n++;
	}
	return n;
}
