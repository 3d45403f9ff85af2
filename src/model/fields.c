/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Visits an event's members as named values: code generated from the rows of events.def. */
#include "call_rows.h"
#include "driver.h"
#include "event.h"
#include "event_table.h"
#include "params.h"

#include <stdio.h>
#include <string.h>

void event_visit_args(const struct trace_event *ev, struct visitor *v)
{
	if (ev->text && v->ops->raw)
		v->ops->raw(v, ev->text->args, ev->text->args_len);
	else if (ev->fn && !ev->text && (ev->word_cnt || ev->cap_cnt)) /* none: --no-args */
		api_visit_args(ev->fn, ev->words, ev->word_cnt, ev->caps, ev->cap_cnt, v);
}

/* One function for each form in forms.def. */

static void visit_u64(struct visitor *v, const char *name, uint64_t x)
{
	v->ops->u64(v, name, x);
}
#define visit_u32 visit_u64
#define visit_pid visit_u64

static void visit_i64(struct visitor *v, const char *name, int64_t x)
{
	v->ops->i64(v, name, x);
}
#define visit_i32 visit_i64

static void visit_f64(struct visitor *v, const char *name, double x)
{
	v->ops->f64(v, name, x);
}

static void visit_us(struct visitor *v, const char *name, uint64_t ns)
{
	v->ops->f64(v, name, ns / 1e3);
}

static void visit_hex(struct visitor *v, const char *name, uint64_t x)
{
	v->ops->hex(v, name, x);
}

static void visit_sym(struct visitor *v, const char *name, const char *s)
{
	v->ops->sym(v, name, s);
}

static void visit_text(struct visitor *v, const char *name, const char *s)
{
	v->ops->text(v, name, s, strlen(s), false);
}

static void visit_text_null(struct visitor *v, const char *name, const char *s)
{
	if (s)
		visit_text(v, name, s);
	else
		v->ops->none(v, name);
}

static void visit_opt_u64(struct visitor *v, const char *name, struct opt_u64 x)
{
	v->ops->u64(v, name, x.v);
}

static void visit_opt_milli(struct visitor *v, const char *name, struct opt_u64 x)
{
	v->ops->f64(v, name, x.v / 1e3);
}

static void visit_opt_hex(struct visitor *v, const char *name, struct opt_u64 x)
{
	v->ops->hex(v, name, x.v);
}

#define visit_yes  visit_bool
#define visit_flag visit_bool

static void visit_dim(struct visitor *v, const char *name, const uint32_t dim[3])
{
	v->ops->open_array(v, name);
	for (int i = 0; i < 3; i++)
		v->ops->u64(v, NULL, dim[i]);
	v->ops->close_array(v);
}

static void visit_direction(struct visitor *v, const char *name, enum copy_dir dir)
{
	v->ops->sym(v, name, copy_dir_name(dir));
}

/* As a number, if it has the size of one. */
static void visit_value(struct visitor *v, const struct launch_param *p, const uint8_t *bytes)
{
	uint64_t x = 0;

	if (p->len == p->size && (p->len == 1 || p->len == 2 || p->len == 4 || p->len == 8)) {
		memcpy(&x, bytes, p->len);
		v->ops->hex(v, "value", x);
	} else {
		v->ops->bytes(v, "value", bytes, p->len);
	}
}

static void visit_param_memory(struct visitor *v, const struct param_memory *x)
{
	v->ops->open(v, NULL);
	if (x->at)
		v->ops->u64(v, "at", x->at);
	v->ops->hex(v, "ptr", x->ptr);
	v->ops->u64(v, "size", x->size);
	v->ops->u64(v, "offset", x->offset);
	v->ops->sym(v, "state", x->freed ? "freed" : "live");
	if (x->freed)
		v->ops->u64(v, "freed_by", x->freed_id);
	v->ops->close(v);
}

void event_visit_params(struct visitor *v, const char *name, const struct launch_params *params)
{
	const uint8_t *bytes = params->bytes;
	unsigned m = 0;

	if (params->unknown) {
		v->ops->none(v, name);
		return;
	}
	v->ops->open_array(v, name);
	for (unsigned i = 0; i < params->cnt; i++) {
		const struct launch_param *p = &params->of[i];
		bool any = m < params->memory_cnt && params->memory[m].param == i;

		v->ops->open(v, NULL);
		v->ops->u64(v, "offset", p->off);
		v->ops->u64(v, "size", p->size);
		if (p->len)
			visit_value(v, p, bytes);
		bytes += p->len;
		if (any)
			v->ops->open_array(v, "memory");
		for (; m < params->memory_cnt && params->memory[m].param == i; m++)
			visit_param_memory(v, &params->memory[m]);
		if (any)
			v->ops->close_array(v);
		v->ops->close(v);
	}
	v->ops->close_array(v);
}
#define visit_params event_visit_params

static void visit_by_handle(struct visitor *v, const char *name, bool x)
{
	v->ops->sym(v, name, "handle");
}

static void visit_processor(struct visitor *v, const char *name, uint32_t id)
{
	char text[16];

	snprintf(text, sizeof(text), id ? "GPU%u" : "CPU", id - 1);
	v->ops->text(v, name, text, strlen(text), false);
}

static void visit_uvm_cause(struct visitor *v, const char *name, uint32_t cause)
{
	if (driver_uvm_cause(cause))
		v->ops->sym(v, name, driver_uvm_cause(cause));
	else
		v->ops->u64(v, name, cause);
}

static void visit_nv_class(struct visitor *v, const char *name, const struct nv_ioctl *io)
{
	if (io->class)
		v->ops->sym(v, name, io->class->name);
	else
		v->ops->hex(v, name, io->f[NV_R_CLASS].v);
}

static void visit_nv_status(struct visitor *v, const char *name, const struct nv_ioctl *io)
{
	const struct nv_value *st = &io->f[NV_R_STATUS];

	/* A saved trace may have any text as its name. */
	if (st->at == NV_AT_EXIT && io->status_name)
		v->ops->text(v, name, io->status_name, strlen(io->status_name), false);
	else if (st->at == NV_AT_EXIT)
		v->ops->hex(v, name, st->v);
	else if (st->at == NV_AT_UNREADABLE)
		v->ops->none(v, name);
}

/* Helpers for the conditions and values of rows; those for calls are in call_rows.h. */

static bool has_role(const struct nv_ioctl *io, enum nv_role role)
{
	return io && nv_has(io, role);
}

static bool is_uvm(const struct nv_ioctl *io)
{
	return ct_nv_commands_of(io->dev) == CT_NV_UVM;
}

static const char *params_of(const struct nv_ioctl *io)
{
	return io->control && io->control->params ? io->control->params : io->params;
}

static bool is_fault(const struct trace_event *ev)
{
	return !strcmp(ev->op, "fault");
}

#define SHOW_IN_BODY(form, name, value, when)                                                      \
	if (WHEN_##when)                                                                           \
		visit_##form(v, #name, value);
#define SHOW_COMMON(form, name, value, when)
#define SHOW_CUSTOM(form, name, value, when)

void event_visit_fields(const struct trace_event *ev, struct visitor *v)
{
	const struct driver_info *d = ev->drv;
	const struct nv_ioctl *io = d ? d->io : NULL;

	if (ev->text) {
		if (v->ops->raw)
			v->ops->raw(v, ev->text->fields, ev->text->fields_len);
		return;
	}
	switch (ev->kind) {
	case EVENT_KIND_CNT:
#define SWITCH_ROW(where, form, name, value, when) SHOW_##where(form, name, value, when)
#include "events.def"
		break;
	}
}
