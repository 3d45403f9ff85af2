/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* RM controls, classes, and the controls that concern the scheduler. */
#include "nv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nv_priv.h"
#include "util/order.h"

#define S(v, n) {v, n},
#define NOS
#define SIZES(...) ((const struct nv_size[]){__VA_ARGS__{UINT32_MAX, 0}})

static const struct nv_rmctrl ctrls[] = {
#define CTRL(v, n, p, by, br, s)	{v, br, 0, NV_BY_##by, 0, #n, p, SIZES(s)},
#define CTRLP(v, n, p, by, br, part, s) {v, br, part, NV_BY_##by, 0, #n, p, SIZES(s)},
#define CTRLX(v, n, p, by, why, s)	{v, 0, 0, NV_BY_##by, NV_CTRL_##why, #n, p, SIZES(s)},
#include "rmctrl.def"
#undef CTRL
#undef CTRLP
#undef CTRLX
};

static const struct nv_class classes[] = {
#define CLASS(nr, n, kind, p, size, br, other) {nr, br, #n, kind, p, size, other},
#include "rmclass.def"
#undef CLASS
};

static const struct nv_sched scheds[] = {
#define SCHED(v, op, n, p, fields, text) {v, op, #n, text, p, fields},
#include "scheduler.def"
#undef SCHED
};

const struct nv_rmctrl *nv_rmctrls(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(ctrls);
	return ctrls;
}

const struct nv_class *nv_classes(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(classes);
	return classes;
}

const struct nv_sched *nv_scheds(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(scheds);
	return scheds;
}

static size_t first_ctrl(uint32_t value)
{
	return COUNT_LEADING(i, ARRAY_SIZE(ctrls), ctrls[i].value < value);
}

static enum nv_fit ctrl_fit(const struct nv_abi *abi, const struct nv_rmctrl *c)
{
	/* Unpublished numbers were observed in programs that send them, not in a release. */
	if (c->flags & NV_CTRL_UNPUB)
		return NV_FIT_PARTIAL;
	return nv_fit_branches(abi, c->branches, c->partial);
}

const struct nv_rmctrl *nv_rmctrl_by_value(const struct nv_abi *abi, uint32_t value,
					   enum nv_fit *fit)
{
	const struct nv_rmctrl *hit = NULL;
	enum nv_fit best = NV_FIT_NONE;

	for (size_t i = first_ctrl(value); i < ARRAY_SIZE(ctrls) && ctrls[i].value == value; i++) {
		enum nv_fit f = ctrl_fit(abi, &ctrls[i]);

		if (f >= best || ctrls[i].flags & NV_CTRL_ALIAS)
			continue;
		hit = &ctrls[i];
		best = f;
	}
	nv_fit_set(fit, best);
	return hit;
}

const struct nv_rmctrl *nv_rmctrl_by_name(const struct nv_abi *abi, const char *name,
					  enum nv_fit *fit)
{
	const struct nv_rmctrl *hit = NULL;
	enum nv_fit best = NV_FIT_NONE;

	for (size_t i = 0; i < ARRAY_SIZE(ctrls); i++) {
		enum nv_fit f;

		if (strcmp(ctrls[i].name, name))
			continue;
		f = ctrl_fit(abi, &ctrls[i]);
		if (f >= best)
			continue;
		hit = &ctrls[i];
		best = f;
	}
	nv_fit_set(fit, best);
	return hit;
}

int nv_rmctrl_params_size(const struct nv_abi *abi, const struct nv_rmctrl *c)
{
	int size = -1;

	for (const struct nv_size *s = c->sizes; s->since != UINT32_MAX; s++)
		if (s->since <= abi->key)
			size = (int)s->size;
	return size;
}

const struct nv_class *nv_class_by_number(const struct nv_abi *abi, uint32_t number,
					  enum nv_fit *fit)
{
	size_t at = COUNT_LEADING(i, ARRAY_SIZE(classes), classes[i].number < number);

	if (at == ARRAY_SIZE(classes) || classes[at].number != number) {
		nv_fit_set(fit, NV_FIT_NONE);
		return NULL;
	}
	/* Class numbers never changed meaning, so a row without branches is equally reliable. */
	nv_fit_set(fit, classes[at].branches ? nv_fit_branches(abi, classes[at].branches, 0)
					     : NV_FIT_EXACT);
	return &classes[at];
}

int nv_class_params_size(const struct nv_abi *abi, const struct nv_class *c)
{
	enum nv_fit fit;
	const struct nv_struct *s;

	if (!c->params)
		return -1;
	s = nv_struct_by_name(abi, c->params, &fit);
	/* Drivers before 525 have this name for it. */
	if (fit == NV_FIT_OTHER && !strcmp(c->params, "NV_CHANNEL_ALLOC_PARAMS"))
		s = nv_struct_by_name(abi, "NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS", &fit);
	if (s)
		return fit == NV_FIT_EXACT ? (int)s->size : -1;
	return c->params_size ? (int)c->params_size : -1;
}

bool nv_rmctrl_is_gss_legacy(uint32_t value)
{
	return value & 0x8000;
}

void nv_rmctrl_describe(const struct nv_abi *abi, uint32_t value, char *buf, size_t size)
{
	const struct nv_rmctrl *c = nv_rmctrl_by_value(abi, value, NULL);
	const struct nv_class *class = nv_class_by_number(abi, value >> 16, NULL);

	if (c)
		snprintf(buf, size, "%s", c->name);
	else if (nv_rmctrl_is_gss_legacy(value))
		snprintf(buf, size, "GSS legacy 0x%04x 0x%02x 0x%02x%s", value >> 16,
			 value >> 8 & 0x3f, value & 0xff, value & 0x4000 ? " privileged" : "");
	else if (!(value & 0xffff))
		snprintf(buf, size, "NVXXXX_CTRL_CMD_NULL of class 0x%04x", value >> 16);
	else if (class)
		snprintf(buf, size, "%s 0x%04x", class->name, value & 0xffff);
	else
		snprintf(buf, size, "0x%08x", value);
}

const struct nv_sched *nv_sched_by_value(uint32_t value)
{
	for (size_t i = 0; i < ARRAY_SIZE(scheds); i++)
		if (scheds[i].value == value)
			return &scheds[i];
	return NULL;
}

static int print_field(const struct nv_struct *layout, const char *name, size_t name_len,
		       const void *params, size_t len, char *buf, size_t size)
{
	for (unsigned i = 0; i < layout->field_cnt; i++) {
		const struct nv_field *f = &layout->fields[i];
		uint64_t v = 0;

		if (strlen(f->name) != name_len || memcmp(f->name, name, name_len))
			continue;
		if (f->size > sizeof(v) || !params || (size_t)f->off + f->size > len)
			break;
		memcpy(&v, (const char *)params + f->off, f->size);
		if (f->kind == NV_KIND_HANDLE)
			return snprintf(buf, size, "%s=0x%" PRIx64, f->name, v);
		return snprintf(buf, size, "%s=%" PRIu64, f->name, v);
	}
	return snprintf(buf, size, "%.*s=?", (int)name_len, name);
}

void nv_sched_describe(const struct nv_abi *abi, const struct nv_sched *s, const void *params,
		       size_t len, char *buf, size_t size)
{
	const struct nv_struct *layout = s->params ? nv_struct_by_name(abi, s->params, NULL) : NULL;
	size_t used = 0;

	if (size)
		buf[0] = 0;
	if (!layout)
		return;
	for (const char *f = s->fields; *f && used + 1 < size; f += *f == ',') {
		size_t n = strcspn(f, ",");

		if (used)
			buf[used++] = ' ';
		used += (size_t)print_field(layout, f, n, params, len, buf + used, size - used);
		f += n;
	}
}
