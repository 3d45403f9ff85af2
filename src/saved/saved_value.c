/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "saved_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/driver.h"
#include "util/plain.h"

static const uint64_t pow10_of[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

/* Other programs may have rewritten numbers: 1.5e3, 0.80661399999999995. */
static double slow_f64(const struct member *m)
{
	char text[64];

	if (m->len >= sizeof(text))
		return 0;
	memcpy(text, m->text, m->len);
	text[m->len] = 0;
	return strtod(text, NULL);
}

static uint64_t to_u64(double x)
{
	if (!(x > 0))
		return 0;
	return x >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)(x + 0.5);
}

uint64_t member_fixed(const struct member *m, unsigned decimals, bool *negative)
{
	const char *s = m->text, *end = s + m->len;
	bool minus = m->len && *s == '-';
	uint64_t x = 0;
	unsigned part = 0, digit;

	if (negative)
		*negative = minus;
	if (m->val != VAL_NUMBER || (minus && !negative))
		return 0;
	s += minus;
	/* A number of more than 19 digits may overflow. */
	if (end - s > 19)
		return to_u64(fabs(slow_f64(m)) * pow10_of[decimals]);
	/* No digit follows a number in a line. */
	for (; (digit = (unsigned)*s - '0') <= 9; s++)
		x = x * 10 + digit;
	if (s < end && *s == '.')
		for (s++; part < decimals && (digit = (unsigned)*s - '0') <= 9; s++, part++)
			x = x * 10 + digit;
	if (s < end)
		return to_u64(fabs(slow_f64(m)) * pow10_of[decimals]);
	return x * pow10_of[decimals - part];
}

static uint64_t hex(const char *s, size_t len)
{
	uint64_t x = 0;

	if (len < 3 || len > 18 || s[0] != '0' || s[1] != 'x')
		return 0;
	for (size_t i = 2; i < len; i++) {
		char c = s[i] | 0x20;
		int d = s[i] <= '9' ? s[i] - '0' : c - 'a' + 10;

		if (d < 0 || d > 15)
			return 0;
		x = x << 4 | d;
	}
	return x;
}

uint64_t member_u64(const struct member *m)
{
	return m->val == VAL_STRING ? hex(m->text, m->len) : member_fixed(m, 0, NULL);
}

int64_t member_i64(const struct member *m)
{
	bool negative;
	uint64_t x = member_fixed(m, 0, &negative);

	return (int64_t)(negative ? 0 - x : x);
}

double member_f64(const struct member *m)
{
	return m->val == VAL_NUMBER ? slow_f64(m) : 0;
}

bool member_dim(const struct member *m, uint32_t dim[3])
{
	const char *s = m->text, *end = s + m->len;

	if (m->val != VAL_ARRAY)
		return false;
	for (int i = 0; i < 3; i++) {
		while (s < end && (*s < '0' || *s > '9'))
			s++;
		if (s == end)
			return false;
		for (dim[i] = 0; s < end && *s >= '0' && *s <= '9'; s++)
			dim[i] = dim[i] * 10 + (*s - '0');
	}
	return true;
}

static bool is_text(const struct member *m, const char *s)
{
	return m->val == VAL_STRING && strlen(s) == m->len && !memcmp(s, m->text, m->len);
}

enum copy_dir member_dir(const struct member *m)
{
	for (enum copy_dir d = COPY_DIR_HTOD; copy_dir_name(d); d++)
		if (is_text(m, copy_dir_name(d)))
			return d;
	return COPY_NONE;
}

/* "CPU" is 0, "GPU0" is 1. */
uint32_t member_processor(const struct member *m)
{
	uint32_t n = 0;

	if (m->val != VAL_STRING || m->len < 4 || memcmp(m->text, "GPU", 3))
		return 0;
	for (size_t i = 3; i < m->len && m->text[i] >= '0' && m->text[i] <= '9'; i++)
		n = n * 10 + (m->text[i] - '0');
	return n + 1;
}

uint32_t member_cause(const struct member *m)
{
	for (uint32_t i = 0; driver_uvm_cause(i); i++)
		if (is_text(m, driver_uvm_cause(i)))
			return i;
	return member_u64(m);
}

const char *member_str(struct saved *s, const struct member *m)
{
	const struct string **last = &s->last[m->key];

	if (m->val != VAL_STRING)
		return NULL;
	/* Many members have the same value in line after line. */
	if (!*last || (*last)->len != m->len || memcmp((*last)->text, m->text, m->len))
		*last = strings__get(s->all->strings, m->text, m->len);
	return (*last)->text;
}

const char *member_op(struct saved *s, const struct member *m)
{
	for (size_t i = 0; m->val == VAL_STRING && i < m->len; i++) {
		char c = m->text[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
			return NULL;
	}
	return member_str(s, m);
}

const char *member_sym(struct saved *s, const struct member *m)
{
	for (size_t i = 0; m->val == VAL_STRING && i < m->len;) {
		unsigned n = plain_len(m->text + i, m->len - i);

		if (!n || m->text[i] == '"' || m->text[i] == '\\')
			return NULL;
		i += n;
	}
	return member_str(s, m);
}

static void take_status(struct saved *s, const struct member *m)
{
	struct nv_value *st = &s->io.f[NV_R_STATUS];
	const struct nv_status_row *rows;
	unsigned cnt;

	st->at = m->val == VAL_NULL ? NV_AT_UNREADABLE : NV_AT_EXIT;
	st->v = member_u64(m);
	if (m->val != VAL_STRING || st->v)
		return;
	s->io.status_name = member_str(s, m);
	rows = nv_statuses(&cnt);
	/* An unknown status name is not a success. */
	st->v = is_text(m, "NV_OK") ? 0 : UINT32_MAX;
	for (unsigned i = 0; st->v && i < cnt; i++)
		if (!strcmp(rows[i].name, s->io.status_name))
			st->v = rows[i].value;
}

static void take_value(struct saved *s, enum nv_role role, const struct member *m)
{
	s->io.f[role] = (struct nv_value){.v = member_u64(m), .at = NV_AT_ENTRY};
}

static void take_class(struct saved *s, const struct member *m)
{
	take_value(s, NV_R_CLASS, m);
	if (m->val != VAL_STRING || s->io.f[NV_R_CLASS].v)
		return;
	s->class = (struct nv_class){.name = member_sym(s, m), .kind = "", .other_names = ""};
	s->io.class = s->class.name ? &s->class : NULL;
}

/* Both kinds have these members, with the same meaning. */
static void take_driver(struct saved *s, const struct member *m, struct trace_event *ev)
{
	struct driver_info *d = &s->drv;
	unsigned row = s->row_of[ev->kind][m->key];

	if (!row)
		return;
	switch (row - 1) {
	case F_driver_device:
	case F_sched_device:
		d->device = member_sym(s, m);
		break;
	case F_driver_fd:
		d->fd = member_i64(m);
		break;
	case F_driver_cmd:
		d->cmd = member_u64(m);
		break;
	case F_driver_escape:
	case F_driver_uvm:
		s->io.name = member_sym(s, m);
		s->io.dev = row - 1 == F_driver_uvm ? CT_NV_UVM : CT_NV_CTL;
		break;
	case F_driver_control:
		s->control = (struct nv_rmctrl){.name = member_sym(s, m)};
		s->io.control = s->control.name ? &s->control : NULL;
		break;
	case F_driver_control_cmd:
		take_value(s, NV_R_CONTROL, m);
		break;
	case F_driver_class:
		take_class(s, m);
		break;
	case F_driver_client:
	case F_sched_client:
		take_value(s, NV_R_CLIENT, m);
		break;
	case F_driver_parent:
		take_value(s, NV_R_PARENT, m);
		break;
	case F_driver_object:
	case F_sched_object:
		take_value(s, NV_R_OBJECT, m);
		break;
	case F_driver_new:
		take_value(s, NV_R_NEW, m);
		break;
	case F_driver_object_class:
	case F_sched_object_class:
		d->object_class = member_sym(s, m);
		break;
	case F_driver_status:
	case F_sched_status:
		take_status(s, m);
		break;
	case F_driver_result:
	case F_sched_result:
		d->ret = member_i64(m);
		break;
	case F_driver_call_id:
	case F_sched_call_id:
		d->call_id = member_u64(m);
		break;
	case F_driver_call:
	case F_sched_call:
		d->call = member_sym(s, m);
		break;
	case F_sched_values:
		d->sched_values = member_str(s, m);
		break;
	case F_sched_meaning:
		s->sched.text = member_sym(s, m);
		break;
	case F_driver_size:
		d->length = member_u64(m);
		break;
	case F_driver_ptr:
		d->address = member_u64(m);
		break;
	default:
		break;
	}
}

void saved_driver(struct saved *s, const struct json_value *p, struct trace_event *ev)
{
	struct driver_info *d = &s->drv;

	*d = (struct driver_info){.device = "", .fd = -1};
	memset(&s->io, 0, sizeof(s->io));
	s->sched = (struct nv_sched){.op = ev->op, .name = ev->name, .text = "", .fields = ""};
	for (const struct member *m = p->m; m < p->m + p->cnt; m++)
		take_driver(s, m, ev);
	ev->drv = d;
	if (ev->kind == EVENT_SCHED || !strcmp(ev->op, "ioctl"))
		d->io = &s->io;
	ev->is_error = driver_failed(d);
	if (ev->kind == EVENT_SCHED)
		d->sched = &s->sched;
	if (strcmp(ev->op, "mmap"))
		d->address = d->length = 0;
	else if (d->address)
		d->ret = d->address;
}
