/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Expands the .def files into const tables and looks things up in them. */
#include "cuda.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Enums: values_NAME[], enum_NAME. */
#define ENUM_BEGIN(e) static const struct cuda_enum_value values_##e[] = {
#define VALUE(n, v)   {#n, v},
#define ENUM_END(e)                                                                                \
	}                                                                                          \
	;                                                                                          \
	static const struct cuda_enum enum_##e = {#e, values_##e, ARRAY_SIZE(values_##e)};
#include "cuda_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END

/* Types name structs and struct fields name types: declare structs first, define them last. */
#define STRUCT_BEGIN(s, sz)                                                                        \
	enum { struct_size_##s = (sz) };                                                           \
	static const struct cuda_struct struct_##s;
#define FIELD(o, t, n)
#define FIELD_ARR(o, t, n, c)
#define STRUCT_END(s)
#include "cuda_structs.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef FIELD_ARR
#undef STRUCT_END

#define TYPE(t, c, s, k) static const struct cuda_type type_##t = {c, s, KIND_##k, NULL, NULL};
#define TYPE_ENUM(t, c, k, e)                                                                      \
	static const struct cuda_type type_##t = {c, 4, KIND_##k, &enum_##e, NULL};
#define TYPE_ENUM_SZ(t, c, s, k, e)                                                                \
	static const struct cuda_type type_##t = {c, s, KIND_##k, &enum_##e, NULL};
#define TYPE_STRUCT(t, c, s)                                                                       \
	static const struct cuda_type type_##t = {c, struct_size_##s, KIND_STRUCT, NULL,           \
						  &struct_##s};
#include "cuda_types.def"
#undef TYPE
#undef TYPE_ENUM
#undef TYPE_ENUM_SZ
#undef TYPE_STRUCT

#define STRUCT_BEGIN(s, sz)   static const struct cuda_field fields_##s[] = {
#define FIELD(o, t, n)	      {o, 1, &type_##t, #n},
#define FIELD_ARR(o, t, n, c) {o, c, &type_##t, #n},
#define STRUCT_END(s)                                                                              \
	}                                                                                          \
	;                                                                                          \
	static const struct cuda_struct struct_##s = {#s, struct_size_##s, fields_##s,             \
						      ARRAY_SIZE(fields_##s)};
#include "cuda_structs.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef FIELD_ARR
#undef STRUCT_END

static const struct cuda_type *const all_types[] = {
#define TYPE(t, c, s, k)	    &type_##t,
#define TYPE_ENUM(t, c, k, e)	    &type_##t,
#define TYPE_ENUM_SZ(t, c, s, k, e) &type_##t,
#define TYPE_STRUCT(t, c, s)	    &type_##t,
#include "cuda_types.def"
#undef TYPE
#undef TYPE_ENUM
#undef TYPE_ENUM_SZ
#undef TYPE_STRUCT
};

static const struct cuda_enum *const all_enums[] = {
#define ENUM_BEGIN(e) &enum_##e,
#define VALUE(n, v)
#define ENUM_END(e)
#include "cuda_enums.def"
#undef ENUM_BEGIN
#undef VALUE
#undef ENUM_END
};

static const struct cuda_struct *const all_structs[] = {
#define STRUCT_BEGIN(s, sz) &struct_##s,
#define FIELD(o, t, n)
#define FIELD_ARR(o, t, n, c)
#define STRUCT_END(s)
#include "cuda_structs.def"
#undef STRUCT_BEGIN
#undef FIELD
#undef FIELD_ARR
#undef STRUCT_END
};

/* Argument lists: args_SYMBOL[], ended by DIR_END. */
#define IN(t, n)	 {DIR_IN, 0, &type_##t, #n},
#define OUT(t, n)	 {DIR_OUT, 0, &type_##t, #n},
#define INOUT(t, n)	 {DIR_INOUT, 0, &type_##t, #n},
#define IN_PTR(t, n)	 {DIR_IN_PTR, 0, &type_##t, #n},
#define IN_STR(n)	 {DIR_IN_STR, 0, &type_ptr, #n},
#define OUT_STR(n)	 {DIR_OUT_STR, 0, &type_ptr, #n},
#define OUT_PSTR(n)	 {DIR_OUT_PSTR, 0, &type_ptr, #n},
#define IN_ARR(t, n, c)	 {DIR_IN_ARR, c, &type_##t, #n},
#define OUT_ARR(t, n, c) {DIR_OUT_ARR, c, &type_##t, #n},
#define NOARGS
#define FN(sym, cls, o, ver, args) static const struct cuda_arg args_##sym[] = {args{0}};
#include "cuda_api.def"
#undef FN

static const struct {
	const char *symbol;
	uint8_t class, op;
	uint16_t since;
	uint8_t arg_cnt;
	const struct cuda_arg *args;
} rows[] = {
#define FN(sym, cls, o, ver, a)                                                                    \
	{#sym, CLASS_##cls, OP_##o, ver, ARRAY_SIZE(args_##sym) - 1, args_##sym},
#include "cuda_api.def"
#undef FN
};

static struct cuda_fn fns[ARRAY_SIZE(rows)];
static const struct cuda_fn *by_symbol[ARRAY_SIZE(rows)];
static char names[ARRAY_SIZE(rows)][64];

static int cmp_symbol(const void *a, const void *b)
{
	return strcmp((*(const struct cuda_fn *const *)a)->symbol,
		      (*(const struct cuda_fn *const *)b)->symbol);
}

static bool ends_with(const char *s, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len > n && !memcmp(s + len - n, suffix, n);
}

void cuda_public_name(const char *symbol, char *buf, size_t size)
{
	size_t len = strlen(symbol), end;

	if (ends_with(symbol, len, "_ptsz") || ends_with(symbol, len, "_ptds"))
		len -= 5;
	for (end = len; end > 0 && isdigit((unsigned char)symbol[end - 1]); end--)
		;
	if (end < len && end > 2 && symbol[end - 1] == 'v' && symbol[end - 2] == '_')
		len = end - 2;
	if (len >= size)
		len = size - 1;
	memcpy(buf, symbol, len);
	buf[len] = 0;
}

int cuda_fn_bytes_arg(const struct cuda_fn *fn)
{
	for (int i = 0; i < fn->arg_cnt; i++)
		if (fn->args[i].type == &type_bytes || fn->args[i].type == &type_bytes32)
			return i;
	return -1;
}

/* Before main: the tables are read only from then on, so no caller needs to know. */
__attribute__((constructor)) static void init_fns(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cuda_fn *fn = &fns[i];
		size_t len = strlen(rows[i].symbol);

		cuda_public_name(rows[i].symbol, names[i], sizeof(names[i]));
		fn->symbol = rows[i].symbol;
		fn->name = names[i];
		fn->class = rows[i].class;
		fn->op = rows[i].op;
		fn->since = rows[i].since;
		fn->arg_cnt = rows[i].arg_cnt;
		fn->args = rows[i].args;
		fn->known = true;
		fn->per_thread =
			ends_with(fn->symbol, len, "_ptsz") || ends_with(fn->symbol, len, "_ptds");
		fn->is_async = strstr(names[i], "Async") != NULL;
		by_symbol[i] = fn;
	}
	qsort(by_symbol, ARRAY_SIZE(rows), sizeof(by_symbol[0]), cmp_symbol);
}

const struct cuda_fn *cuda_fns(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(fns);
	return fns;
}

const struct cuda_fn *cuda_fn_by_symbol(const char *symbol)
{
	struct cuda_fn key = {.symbol = symbol};
	const struct cuda_fn *pkey = &key, **hit;

	hit = bsearch(&pkey, by_symbol, ARRAY_SIZE(rows), sizeof(by_symbol[0]), cmp_symbol);
	return hit ? *hit : NULL;
}

static const struct {
	const char *name, *text;
} classes[] = {
#define CLASS(id, name, text) {name, text},
#include "cuda_classes.def"
#undef CLASS
};

static const char *const ops[] = {
#define OP(id, name) name,
#include "cuda_ops.def"
#undef OP
};

const char *cuda_class_name(enum cuda_class c)
{
	return classes[c].name;
}

const char *cuda_class_text(enum cuda_class c)
{
	return classes[c].text;
}

int cuda_class_by_name(const char *name, size_t len)
{
	for (int i = 0; i < CLASS_CNT; i++)
		if (strlen(classes[i].name) == len && !memcmp(classes[i].name, name, len))
			return i;
	return -1;
}

const char *cuda_op_name(enum cuda_op op)
{
	return ops[op];
}

bool cuda_fn_is_query(const struct cuda_fn *fn)
{
	return fn->op == OP_QUERY;
}

const char *cuda_enum_name(const struct cuda_enum *en, int64_t value)
{
	unsigned lo = 0, hi = en->value_cnt;

	/* The first of equal values: aliases follow the name that is printed. */
	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (en->values[mid].value < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < en->value_cnt && en->values[lo].value == value)
		return en->values[lo].name;
	return NULL;
}

#define BY_NAME(table, key)                                                                        \
	do {                                                                                       \
		for (size_t i = 0; i < ARRAY_SIZE(table); i++)                                     \
			if (!strcmp((table)[i]->name, key))                                        \
				return (table)[i];                                                 \
		return NULL;                                                                       \
	} while (0)

const struct cuda_enum *cuda_enum_by_name(const char *name)
{
	BY_NAME(all_enums, name);
}

const struct cuda_type *cuda_type_by_name(const char *name)
{
	BY_NAME(all_types, name);
}

const struct cuda_struct *cuda_struct_by_name(const char *name)
{
	BY_NAME(all_structs, name);
}

const char *cuda_result_name(int32_t result)
{
	return cuda_enum_name(&enum_CUresult, result);
}
