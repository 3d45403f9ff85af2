/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Passes values to a visitor. The bytes come from the target and lengths from a record, so nothing
 * is read beyond the copied bytes, whatever a count or a type contains.
 */
#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"

#define FLAGS_TEXT_SZ 1024

/* Loads values of a scalar type, signed or unsigned. */
static uint64_t load(const uint8_t *p, unsigned size)
{
	uint64_t x = 0;

	memcpy(&x, p, size < sizeof(x) ? size : sizeof(x));
	return x;
}

static uint64_t zero_extend(uint64_t x, unsigned size)
{
	return size < 8 ? x & ((1ULL << 8 * size) - 1) : x;
}

static int64_t sign_extend(uint64_t x, unsigned size)
{
	unsigned shift = size < 8 ? 64 - 8 * size : 0;

	return (int64_t)(x << shift) >> shift;
}

/* Returns whether C treats the type as signed: gcc's enums without negative enumerators are
 * unsigned. */
static bool is_signed(const struct api_type *type)
{
	if (!strncmp(type->name, "unsigned", 8))
		return false;
	return !strcmp(type->name, "int") || (type->en->value_cnt && type->en->values[0].value < 0);
}

static void visit_enum(const struct api_type *type, const char *name, uint64_t x, struct visitor *v)
{
	int64_t i = sign_extend(x, type->size);
	const char *s = api_enum_name(type->en, i);

	/* Enumerators such as 0x80000000 may be unsigned in the table. */
	if (!s && i < 0)
		s = api_enum_name(type->en, zero_extend(x, type->size));
	if (s)
		v->ops->sym(v, name, s);
	else if (is_signed(type))
		v->ops->i64(v, name, i);
	else
		v->ops->u64(v, name, zero_extend(x, type->size));
}

/* Visits the names of single bits, lowest first; the remaining bits as a number. */
static void visit_flag_names(const struct api_enum *en, const char *name, uint64_t x,
			     struct visitor *v)
{
	char text[FLAGS_TEXT_SZ];
	size_t len = 0;

	for (unsigned i = 0; i < en->value_cnt && x; i++) {
		uint64_t bit = en->values[i].value;
		size_t n = strlen(en->values[i].name);

		if (__builtin_popcountll(bit) != 1 || !(x & bit) || len + n + 24 > sizeof(text))
			continue;
		if (len)
			text[len++] = '|';
		memcpy(text + len, en->values[i].name, n);
		len += n;
		x &= ~bit;
	}
	if (!len) {
		v->ops->hex(v, name, x);
		return;
	}
	text[len] = 0;
	if (x)
		snprintf(text + len, sizeof(text) - len, "|0x%llx", (unsigned long long)x);
	v->ops->sym(v, name, text);
}

static void visit_flags(const struct api_type *type, const char *name, uint64_t x,
			struct visitor *v)
{
	const char *s;

	x = zero_extend(x, type->size);
	s = api_enum_name(type->en, x);
	if (s)
		v->ops->sym(v, name, s);
	else if (!x)
		v->ops->u64(v, name, 0);
	else
		visit_flag_names(type->en, name, x, v);
}

enum number_form api_number_form(const struct api_type *type)
{
	switch (type->kind) {
	case KIND_INT:
		return NUMBER_I64;
	case KIND_UINT:
		return NUMBER_U64;
	case KIND_ENUM:
	case KIND_FLAGS:
		return NUMBER_NAMED;
	case KIND_PTR:
		return NUMBER_PTR;
	default:
		return NUMBER_HEX;
	}
}

unsigned api_number_shift(const struct api_type *type)
{
	return type->size && type->size < 8 ? 64 - 8 * type->size : 0;
}

void api_visit_number(const struct api_type *type, const char *name, uint64_t x, struct visitor *v)
{
	switch (api_number_form(type)) {
	case NUMBER_I64:
		v->ops->i64(v, name, sign_extend(x, type->size));
		return;
	case NUMBER_U64:
		v->ops->u64(v, name, zero_extend(x, type->size));
		return;
	case NUMBER_NAMED:
		if (type->kind == KIND_ENUM)
			visit_enum(type, name, x, v);
		else
			visit_flags(type, name, x, v);
		return;
	case NUMBER_PTR:
		if (!x) {
			v->ops->none(v, name);
			return;
		}
		/* fall through */
	case NUMBER_HEX:
		v->ops->hex(v, name, zero_extend(x, type->size));
	}
}

static void visit_float(const struct api_type *type, const char *name, const uint8_t *p,
			struct visitor *v)
{
	float f;
	double d;

	if (type->size == sizeof(f)) {
		memcpy(&f, p, sizeof(f));
		d = f;
	} else {
		memcpy(&d, p, sizeof(d));
	}
	v->ops->f64(v, name, d);
}

static void visit_chars(const char *name, const uint8_t *p, size_t len, struct visitor *v)
{
	v->ops->text(v, name, (const char *)p, strnlen((const char *)p, len), false);
}

/* Visits one value of type at p, of which len bytes may be read. */
static void visit_value(const struct api_type *type, const char *name, const uint8_t *p, size_t len,
			struct visitor *v);

static void visit_array(const struct api_type *type, const char *name, const uint8_t *p, size_t len,
			uint64_t cnt, struct visitor *v)
{
	size_t fit = type->size ? len / type->size : 0;

	v->ops->open_array(v, name);
	for (size_t i = 0; i < cnt && i < fit; i++)
		visit_value(type, NULL, p + i * type->size, type->size, v);
	if (cnt > fit)
		v->ops->sym(v, NULL, "...");
	v->ops->close_array(v);
}

static void visit_field(const struct api_field *f, const uint8_t *p, size_t len, struct visitor *v)
{
	size_t size = (size_t)f->type->size * f->count;

	if (f->off > len || size > len - f->off) {
		v->ops->none(v, f->name);
		return;
	}
	p += f->off;
	if (f->count == 1)
		visit_value(f->type, f->name, p, size, v);
	else if (f->type->kind == KIND_CHARS)
		visit_chars(f->name, p, size, v);
	else if (f->type->kind == KIND_BYTES && f->type->size == 1)
		v->ops->bytes(v, f->name, p, size);
	else
		visit_array(f->type, f->name, p, size, f->count, v);
}

bool api_field_is_there(const struct api_field *f, const uint8_t *p, size_t len, int64_t by_arg)
{
	uint64_t x = by_arg;

	if (!f->selected_by)
		return true;
	if (f->selector != BY_ARG) {
		if (f->selector + sizeof(uint32_t) > len)
			return false;
		x = load(p + f->selector, sizeof(uint32_t));
	}
	return x < 32 && f->selected_by & 1U << x;
}

static void visit_struct(const struct api_type *type, const char *name, const uint8_t *p,
			 size_t len, int64_t by_arg, struct visitor *v)
{
	v->ops->open(v, name);
	for (unsigned i = 0; i < type->st->field_cnt; i++)
		if (api_field_is_there(&type->st->fields[i], p, len, by_arg))
			visit_field(&type->st->fields[i], p, len, v);
	v->ops->close(v);
}

static void visit_value(const struct api_type *type, const char *name, const uint8_t *p, size_t len,
			struct visitor *v)
{
	if (len < type->size && type->kind != KIND_STRUCT) {
		v->ops->none(v, name);
		return;
	}
	switch (type->kind) {
	case KIND_STRUCT:
		visit_struct(type, name, p, len, -1, v);
		return;
	case KIND_FLOAT:
		visit_float(type, name, p, v);
		return;
	case KIND_BYTES:
		v->ops->bytes(v, name, p, type->size);
		return;
	case KIND_CHARS:
		visit_chars(name, p, type->size, v);
		return;
	default:
		api_visit_number(type, name, load(p, type->size), v);
	}
}

/* State of the visit of one call. */
struct visit {
	const struct api_fn *fn;
	const struct plan *plan;
	const uint64_t *words;
	unsigned word_cnt;
	const struct pointee *caps;
	unsigned cap_cnt;
	struct visitor *v;
};

static const struct pointee *arg_pointee(const struct visit *c, unsigned i)
{
	int cap = c->plan->cap[i];

	return cap >= 0 && (unsigned)cap < c->cap_cnt && c->caps[cap].len > 0 ? &c->caps[cap]
									      : NULL;
}

/* Gets the value of an array's count argument, which may be an in-out parameter. */
static bool arg_count(const struct visit *c, unsigned i, uint64_t *cnt)
{
	const struct api_arg *arg = &c->fn->args[i];
	const struct pointee *cap;
	unsigned word;

	if (i >= c->fn->arg_cnt || i >= PLAN_ARGS)
		return false;
	word = c->plan->word[i];
	if (arg->dir == DIR_IN) {
		if (word >= c->word_cnt)
			return false;
		*cnt = zero_extend(c->words[word], arg->type->size);
		return true;
	}
	cap = arg_pointee(c, i);
	if (!cap || cap->len < arg->type->size)
		return false;
	*cnt = load(cap->data, arg->type->size);
	return true;
}

/* Returns whether the record was full before argument i: CT_OUT_SZ_MAX. */
static bool is_cut(const struct visit *c, unsigned i)
{
	int cap = c->plan->cap[i];

	return cap >= 0 && (unsigned)cap < c->cap_cnt && c->caps[cap].len == -ENOSPC;
}

static void visit_arr_arg(const struct visit *c, unsigned i)
{
	const struct api_arg *arg = &c->fn->args[i];
	const struct pointee *cap = arg_pointee(c, i);
	unsigned word = c->plan->word[i];
	uint64_t cnt;
	bool has_cnt = arg_count(c, arg->count_arg, &cnt);

	if (cap && !has_cnt)
		cnt = cap->len / arg->type->size;
	if (cap)
		visit_array(arg->type, arg->name, cap->data, cap->len, cnt, c->v);
	else if (is_cut(c, i) && !(has_cnt && !cnt) && word < c->word_cnt && c->words[word])
		visit_array(arg->type, arg->name, NULL, 0, 1, c->v);
	else if (has_cnt && !cnt && arg->dir == DIR_IN_ARR && word < c->word_cnt && c->words[word])
		visit_array(arg->type, arg->name, NULL, 0, 0, c->v);
	else
		c->v->ops->none(c->v, arg->name);
}

static void visit_str_arg(const struct visit *c, unsigned i)
{
	const char *name = c->fn->args[i].name;
	const struct pointee *cap = arg_pointee(c, i);
	size_t n;

	if (is_cut(c, i)) {
		c->v->ops->text(c->v, name, "", 0, true);
		return;
	}
	if (!cap) {
		c->v->ops->none(c->v, name);
		return;
	}
	/* A truncated string has no NUL: see enum ct_cap_kind. */
	n = strnlen((const char *)cap->data, cap->len);
	c->v->ops->text(c->v, name, (const char *)cap->data, n, n == (size_t)cap->len);
}

static const struct api_type *launch_attr;

/* Runs before main, because several threads print values. */
__attribute__((constructor)) static void find_types(void)
{
	launch_attr = api_type_by_name("CUlaunchAttribute");
}

/* CUlaunchConfig: visits its attributes instead of the pointer to them. */
static void visit_launch_config(const struct visit *c, unsigned i, const struct pointee *cap)
{
	const struct api_type *attr = launch_attr;
	const struct api_struct *st = c->fn->args[i].type->st;
	unsigned at = c->plan->cap[i] + 1;
	const struct pointee *attrs = at < c->cap_cnt && c->caps[at].len > 0 ? &c->caps[at] : NULL;
	struct visitor *v = c->v;

	v->ops->open(v, c->fn->args[i].name);
	for (unsigned f = 0; f < st->field_cnt; f++) {
		const struct api_field *field = &st->fields[f];

		if (field->off == LAUNCH_ATTRS_OFF && attr && attrs &&
		    cap->len >= LAUNCH_ATTRS_CNT_OFF + 4)
			visit_array(attr, field->name, attrs->data, attrs->len,
				    load(cap->data + LAUNCH_ATTRS_CNT_OFF, 4), v);
		else
			visit_field(field, cap->data, cap->len, v);
	}
	v->ops->close(v);
}

/* Returns the number that selects members of a struct's unions: the value of the preceding enum
 * argument; -1: none. */
static int64_t selecting_arg(const struct visit *c, unsigned i)
{
	while (i-- > 0)
		if (c->fn->args[i].dir == DIR_IN && c->fn->args[i].type->kind == KIND_ENUM)
			return c->plan->word[i] < c->word_cnt
				       ? (int64_t)zero_extend(c->words[c->plan->word[i]], 4)
				       : -1;
	return -1;
}

/* Visits a pointer, or its pointee instead. */
static void visit_ptr_arg(const struct visit *c, unsigned i)
{
	const struct api_arg *arg = &c->fn->args[i];
	const struct pointee *cap = arg_pointee(c, i);
	unsigned word = c->plan->word[i];

	if (cap && arg->dir == DIR_IN_PTR && api_type_has_attrs(arg->type))
		visit_launch_config(c, i, cap);
	else if (cap && arg->type->kind == KIND_STRUCT)
		visit_struct(arg->type, arg->name, cap->data, cap->len, selecting_arg(c, i), c->v);
	else if (cap)
		visit_value(arg->type, arg->name, cap->data, cap->len, c->v);
	else if (c->plan->cap[i] < 0 && arg->dir == DIR_IN_PTR && word < c->word_cnt &&
		 c->words[word])
		/* The content was not worth copying, so show the address. */
		c->v->ops->hex(c->v, arg->name, c->words[word]);
	else if (is_cut(c, i) && word < c->word_cnt && c->words[word])
		c->v->ops->sym(c->v, arg->name, "...");
	else
		c->v->ops->none(c->v, arg->name);
}

static void visit_in_arg(const struct visit *c, unsigned i)
{
	const struct api_arg *arg = &c->fn->args[i];
	unsigned word = c->plan->word[i], cnt = (arg->type->size + 7) / 8;

	if (word + cnt > c->word_cnt)
		c->v->ops->none(c->v, arg->name);
	else
		visit_value(arg->type, arg->name, (const uint8_t *)&c->words[word], 8 * cnt, c->v);
}

static void visit_arg(const struct visit *c, unsigned i)
{
	switch (c->fn->args[i].dir) {
	case DIR_IN:
		visit_in_arg(c, i);
		return;
	case DIR_IN_STR:
	case DIR_OUT_STR:
	case DIR_OUT_PSTR:
		visit_str_arg(c, i);
		return;
	case DIR_IN_ARR:
	case DIR_OUT_ARR:
		visit_arr_arg(c, i);
		return;
	default:
		visit_ptr_arg(c, i);
	}
}

static void visit_raw(const struct visit *c)
{
	static const char *const names[] = {"arg0", "arg1", "arg2", "arg3", "arg4", "arg5"};

	for (unsigned i = 0; i < c->word_cnt && i < sizeof(names) / sizeof(names[0]); i++)
		c->v->ops->hex(c->v, names[i], c->words[i]);
}

void api_visit_args(const struct api_fn *fn, const uint64_t *words, unsigned word_cnt,
		    const struct pointee *caps, unsigned cap_cnt, struct visitor *v)
{
	struct plan tmp;
	struct visit c = {.fn = fn,
			  .words = words,
			  .word_cnt = word_cnt < CT_MAX_WORDS ? word_cnt : CT_MAX_WORDS,
			  .caps = caps,
			  .cap_cnt = cap_cnt,
			  .v = v};

	if (!fn->known) {
		visit_raw(&c);
		return;
	}
	c.plan = api_plan(fn, &tmp);
	for (unsigned i = 0, n; i < fn->arg_cnt && i < PLAN_ARGS; i += n) {
		unsigned word = c.plan->word[i];

		n = 1;
		if (!c.plan->numbers[i] || word >= c.word_cnt) {
			visit_arg(&c, i);
		} else if (!v->ops->numbers) {
			api_visit_number(fn->args[i].type, fn->args[i].name, words[word], v);
		} else {
			n = c.plan->numbers[i];
			n = n < c.word_cnt - word ? n : c.word_cnt - word;
			v->ops->numbers(v, &fn->args[i], &words[word], n);
		}
	}
}
