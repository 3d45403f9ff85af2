/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Expands the .def files into const tables, and has their lookup functions. */
#include "cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_values.h"
#include "util/order.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Enums: values_NAME[], enum_NAME. */
#define ENUM_BEGIN(e) static const struct api_enum_value values_##e[] = {
#define VALUE(n, v)   {#n, v},
#define ENUM_END(e)                                                                                \
	}                                                                                          \
	;                                                                                          \
	static const struct api_enum enum_##e = {#e, values_##e, ARRAY_SIZE(values_##e)};
#include "api_tables.h"

/* Types name structs and struct fields name types: declare structs first, define them last. */
#define STRUCT_BEGIN(s, sz)                                                                        \
	enum { struct_size_##s = (sz) };                                                           \
	static const struct api_struct struct_##s;
#define FIELD(o, t, n)
#define FIELD_ARR(o, t, n, c)
#define STRUCT_END(s)
#include "api_tables.h"

#define TYPE(t, c, s, k) static const struct api_type type_##t = {c, s, KIND_##k, NULL, NULL};
#define TYPE_ENUM(t, c, k, e)                                                                      \
	static const struct api_type type_##t = {c, 4, KIND_##k, &enum_##e, NULL};
#define TYPE_ENUM_SZ(t, c, s, k, e)                                                                \
	static const struct api_type type_##t = {c, s, KIND_##k, &enum_##e, NULL};
#define TYPE_STRUCT(t, c, s)                                                                       \
	static const struct api_type type_##t = {c, struct_size_##s, KIND_STRUCT, NULL,            \
						 &struct_##s};
#include "api_tables.h"

#define STRUCT_BEGIN(s, sz)	       static const struct api_field fields_##s[] = {
#define FIELD(o, t, n)		       {o, 1, 0, 0, &type_##t, #n},
#define FIELD_ARR(o, t, n, c)	       {o, c, 0, 0, &type_##t, #n},
#define FIELD_IF(o, t, n, s, w)	       {o, 1, s, w, &type_##t, #n},
#define FIELD_ARR_IF(o, t, n, c, s, w) {o, c, s, w, &type_##t, #n},
#define STRUCT_END(s)                                                                              \
	}                                                                                          \
	;                                                                                          \
	static const struct api_struct struct_##s = {#s, struct_size_##s, fields_##s,              \
						     ARRAY_SIZE(fields_##s)};
#include "api_tables.h"

static const struct api_type *const all_types[] = {
#define TYPE(t, c, s, k)	    &type_##t,
#define TYPE_ENUM(t, c, k, e)	    &type_##t,
#define TYPE_ENUM_SZ(t, c, s, k, e) &type_##t,
#define TYPE_STRUCT(t, c, s)	    &type_##t,
#include "api_tables.h"
};

static const struct api_enum *const all_enums[] = {
#define ENUM_BEGIN(e) &enum_##e,
#define VALUE(n, v)
#define ENUM_END(e)
#include "api_tables.h"
};

static const struct api_struct *const all_structs[] = {
#define STRUCT_BEGIN(s, sz) &struct_##s,
#define FIELD(o, t, n)
#define FIELD_ARR(o, t, n, c)
#define STRUCT_END(s)
#include "api_tables.h"
};

static const struct api apis[API_CNT] = {
#define API(id, name, files, prefix, results, ok, pending)                                         \
	[API_##id] = {API_##id, name, files, prefix, &enum_##results, ok, pending, false},
#define API_ASKED(id, name, files, prefix, results, ok, pending)                                   \
	[API_##id] = {API_##id, name, files, prefix, &enum_##results, ok, pending, true},
#include "apis.def"
#undef API
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
#define FN(sym, cls, o, ver, args) static const struct api_arg args_##sym[] = {args{0}};
#include "api_tables.h"

static const struct {
	const char *symbol;
	uint8_t api, class, op;
	uint16_t since;
	uint8_t arg_cnt;
	bool no_result;
	const struct api_arg *args;
} rows[] = {
/* Expands FAMILY first. */
#define API_OF(family)	API_OF_(family)
#define API_OF_(family) API_##family
#define ROW(sym, cls, o, ver, no_result)                                                           \
	{#sym,	    API_OF(FAMILY), CLASS_##cls, OP_##o, ver, ARRAY_SIZE(args_##sym) - 1,          \
	 no_result, args_##sym},
#define FN(sym, cls, o, ver, a)		  ROW(sym, cls, o, ver, false)
#define FN_NO_RESULT(sym, cls, o, ver, a) ROW(sym, cls, o, ver, true)
#include "api_tables.h"
};

static struct api_fn fns[ARRAY_SIZE(rows)];
static const struct api_fn *by_symbol[ARRAY_SIZE(rows)];
static char names[ARRAY_SIZE(rows)][64];
static char lib_names[API_CNT][32];

static int cmp_symbol(const void *a, const void *b)
{
	return strcmp((*(const struct api_fn *const *)a)->symbol,
		      (*(const struct api_fn *const *)b)->symbol);
}

static bool ends_with(const char *s, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len > n && !memcmp(s + len - n, suffix, n);
}

/* C++: returns the last of the consecutive names with length prefixes. */
static bool mangled_name(const char *symbol, char *buf, size_t size)
{
	const char *name = NULL;
	unsigned long len = 0;
	char *end;

	symbol += symbol[2] == 'N' ? 3 : 2;
	while (isdigit((unsigned char)*symbol)) {
		len = strtoul(symbol, &end, 10);
		if (len > strlen(end))
			return false;
		name = end;
		symbol = end + len;
	}
	if (!name)
		return false;
	snprintf(buf, size, "%.*s", (int)(len < size ? len : size - 1), name);
	return true;
}

void api_public_name(const char *symbol, char *buf, size_t size)
{
	size_t len = strlen(symbol), end;

	if (!strncmp(symbol, "_Z", 2) && mangled_name(symbol, buf, size))
		return;
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

int api_fn_bytes_arg(const struct api_fn *fn)
{
	for (int i = 0; i < fn->arg_cnt; i++)
		if (fn->args[i].type == &type_bytes || fn->args[i].type == &type_bytes32)
			return i;
	return -1;
}

const struct api *api_at(enum api_id id)
{
	return &apis[id];
}

const struct api *api_by_name(const char *name, size_t len)
{
	for (int i = 0; i < API_CNT; i++)
		if (strlen(apis[i].name) == len && !memcmp(apis[i].name, name, len))
			return &apis[i];
	return NULL;
}

/* s: the rest of a name after the prefix of its family. nvshmem_, nvshmemx_ and nvshmemid_ are one
 * family. */
static bool begins_name(const char *s)
{
	size_t letters = strspn(s, "dix");

	return isupper((unsigned char)*s) || (letters <= 2 && s[letters] == '_');
}

const struct api *api_of_symbol(const char *symbol)
{
	const struct api_fn *row = !strncmp(symbol, "_Z", 2) ? api_fn_by_symbol(symbol) : NULL;
	const struct api *best = NULL;

	/* C++: the family of a symbol without a row is unknown. */
	if (!strncmp(symbol, "_Z", 2))
		return row ? &apis[row->api] : NULL;
	/* Called by compiler-generated code: __cudaLaunchKernel. */
	if (!strncmp(symbol, "__", 2))
		symbol += 2;
	for (int i = 0; i < API_CNT; i++) {
		size_t len = strlen(apis[i].prefix);

		if (!strncmp(symbol, apis[i].prefix, len) && begins_name(symbol + len) &&
		    (!best || len > strlen(best->prefix)))
			best = &apis[i];
	}
	return best;
}

/* Returns whether s is .so, or .so and a version. */
static bool is_so(const char *s)
{
	if (strncmp(s, ".so", 3) != 0)
		return false;
	for (s += 3; *s;) {
		if (*s++ != '.' || !isdigit((unsigned char)*s))
			return false;
		while (isdigit((unsigned char)*s))
			s++;
	}
	return true;
}

const char *api_file(const struct api *api, unsigned i, size_t *len)
{
	const char *file = api->files;

	for (; i && *file; i--) {
		file += strcspn(file, " ");
		file += strspn(file, " ");
	}
	*len = strcspn(file, " ");
	return *len ? file : NULL;
}

const char *api_any_file(unsigned i, const struct api **api, size_t *len)
{
	const char *file;

	for (int a = 0; a < API_CNT; a++)
		for (unsigned k = 0; (file = api_file(&apis[a], k, len)); k++)
			if (!memchr(file, '*', *len) && !i--) {
				*api = &apis[a];
				return file;
			}
	return NULL;
}

const char *api_lib_name(const struct api *api)
{
	return lib_names[api->id];
}

size_t api_stem_len(const char *file)
{
	size_t star = strcspn(file, "* ");

	return file[star] == '*' ? star : (size_t)(strstr(file, ".so") - file);
}

const struct api *api_of_file(const char *basename)
{
	const char *file;
	size_t len;

	for (int i = 0; i < API_CNT; i++)
		for (unsigned k = 0; (file = api_file(&apis[i], k, &len)); k++) {
			size_t stem = api_stem_len(file);

			if (strncmp(basename, file, stem) != 0)
				continue;
			if (file[stem] == '*' ? strstr(basename + stem, ".so") != NULL
					      : is_so(basename + stem))
				return &apis[i];
		}
	return NULL;
}

const char *api_result_name(const struct api *api, int32_t result)
{
	return api_enum_name(api->results, result);
}

const char *fn_result_name(const struct api_fn *fn, int32_t result)
{
	return fn->no_result ? NULL : api_result_name(&apis[fn->api], result);
}

bool fn_is_error(const struct api_fn *fn, int32_t result)
{
	const struct api *api = &apis[fn->api];

	return !fn->no_result && result != api->ok && result != api->pending;
}

/* Runs before main, so the tables are read-only afterwards and need no locks. */
__attribute__((constructor)) static void init_fns(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct api_fn *fn = &fns[i];
		size_t len = strlen(rows[i].symbol);

		api_public_name(rows[i].symbol, names[i], sizeof(names[i]));
		fn->api = rows[i].api;
		fn->no_result = rows[i].no_result;
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
	for (int a = 0; a < API_CNT; a++)
		snprintf(lib_names[a], sizeof(lib_names[a]), "%.*s",
			 (int)api_stem_len(apis[a].files), apis[a].files);
	qsort(by_symbol, ARRAY_SIZE(rows), sizeof(by_symbol[0]), cmp_symbol);
}

const struct api_fn *api_fns(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(fns);
	return fns;
}

const struct api_fn *api_fn_by_symbol(const char *symbol)
{
	struct api_fn key = {.symbol = symbol};
	const struct api_fn *pkey = &key, **hit;

	hit = bsearch(&pkey, by_symbol, ARRAY_SIZE(rows), sizeof(by_symbol[0]), cmp_symbol);
	return hit ? *hit : NULL;
}

static const struct {
	const char *name, *text;
	uint8_t detail, queries; /* enum api_detail */
} classes[] = {
#define CLASS_BESIDE(id, name, detail, queries, text)                                              \
	{name, text, DETAIL_##detail, DETAIL_##queries},
#define CLASS(id, name, TYPE, type, detail, queries, chrome, flame, text)                          \
	CLASS_BESIDE(id, name, detail, queries, text)
#include "cuda_classes.def"
#undef CLASS
};

const char *api_class_name(enum api_class c)
{
	return classes[c].name;
}

const char *api_class_text(enum api_class c)
{
	return classes[c].text;
}

int api_class_by_name(const char *name, size_t len)
{
	for (int i = 0; i < CLASS_CNT; i++)
		if (strlen(classes[i].name) == len && !memcmp(classes[i].name, name, len))
			return i;
	return -1;
}

const char *api_op_name(enum api_op op)
{
	return op_desc[op].name;
}

bool api_fn_is_query(const struct api_fn *fn)
{
	return fn->op == OP_QUERY;
}

static const struct {
	const char *name, *text;
} details[DETAIL_CNT] = {
#define DETAIL(id, name, text) [DETAIL_##id] = {name, text},
#include "details.def"
#undef DETAIL
};

const char *detail_name(enum api_detail d)
{
	return details[d].name;
}

const char *detail_text(enum api_detail d)
{
	return details[d].text;
}

int detail_by_name(const char *name)
{
	for (int d = DETAIL_UNSET + 1; d < DETAIL_CNT; d++)
		if (!strcmp(details[d].name, name))
			return d;
	return -1;
}

enum api_detail api_fn_detail(const struct api_fn *fn)
{
	enum api_detail d = classes[fn->class].detail;

	if (api_fn_is_query(fn))
		return classes[fn->class].queries;
	return d < DETAIL_NORMAL && op_does(fn->op, SETS_STATE) ? DETAIL_NORMAL : d;
}

const char *api_enum_name(const struct api_enum *en, int64_t value)
{
	/* The first of equal values: aliases follow the name that is printed. */
	unsigned n = COUNT_LEADING(i, en->value_cnt, en->values[i].value < value);

	return n < en->value_cnt && en->values[n].value == value ? en->values[n].name : NULL;
}

#define BY_NAME(table, key)                                                                        \
	do {                                                                                       \
		for (size_t i = 0; i < ARRAY_SIZE(table); i++)                                     \
			if (!strcmp((table)[i]->name, key))                                        \
				return (table)[i];                                                 \
		return NULL;                                                                       \
	} while (0)

const struct api_enum *api_enum_by_name(const char *name)
{
	BY_NAME(all_enums, name);
}

const struct api_type *api_type_by_name(const char *name)
{
	BY_NAME(all_types, name);
}

const struct api_struct *api_struct_by_name(const char *name)
{
	BY_NAME(all_structs, name);
}
