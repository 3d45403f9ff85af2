/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/units.h"

enum arg_type { STRING, LIST, INTEGER, NUMBER };
enum arg_need { OPTIONAL, NEEDED };

struct arg_row {
	enum tool_id tool;
	const char *name;
	enum arg_type type;
	enum arg_need need;
	double min, max;
	const char *text;
};

static const struct arg_row rows[ARG_CNT] = {
#define TOOL(name, title, text)
#define ARG(tool, name, type, need, min, max, text)                                                \
	{TOOL_##tool, #name, type, need, min, max, text},
#include "tools.def"
};

static const struct {
	const char *name, *title, *text;
} tools[TOOL_CNT] = {
#define TOOL(name, title, text) {#name, title, text},
#define ARG(tool, name, type, need, min, max, text)
#include "tools.def"
};

enum tool_id tool_by_name(const char *name, size_t len)
{
	enum tool_id t = 0;

	while (t < TOOL_CNT && (strlen(tools[t].name) != len || memcmp(tools[t].name, name, len)))
		t++;
	return t;
}

bool arg_list_has(const struct arg_list *l, const char *s, size_t len)
{
	for (unsigned i = 0; i < l->cnt; i++)
		if (strlen(l->v[i]) == len && !memcmp(l->v[i], s, len))
			return true;
	return false;
}

/* --- schemas --- */

static void schema_row(struct json *j, const struct arg_row *row)
{
	static const char *const types[] = {"string", "array", "integer", "number"};

	json_open(j, row->name);
	json_sym(j, "type", types[row->type]);
	switch (row->type) {
	case STRING:
		json_u64(j, "maxLength", row->max);
		break;
	case LIST:
		json_open(j, "items");
		json_sym(j, "type", "string");
		json_close(j);
		json_u64(j, "maxItems", row->max);
		break;
	case INTEGER:
	case NUMBER:
		json_i64(j, "minimum", row->min);
		json_i64(j, "maximum", row->max);
		break;
	}
	json_str(j, "description", row->text);
	json_close(j);
}

static void schema(struct json *j, enum tool_id t)
{
	json_open(j, "inputSchema");
	json_sym(j, "type", "object");
	json_open(j, "properties");
	for (unsigned i = 0; i < ARG_CNT; i++)
		if (rows[i].tool == t)
			schema_row(j, &rows[i]);
	json_close(j);
	json_open_array(j, "required");
	for (unsigned i = 0; i < ARG_CNT; i++)
		if (rows[i].tool == t && rows[i].need == NEEDED)
			json_str(j, NULL, rows[i].name);
	json_close_array(j);
	json_bool(j, "additionalProperties", false);
	json_close(j);
}

void tools_json(struct json *j)
{
	json_open_array(j, "tools");
	for (enum tool_id t = 0; t < TOOL_CNT; t++) {
		json_open(j, NULL);
		json_str(j, "name", tools[t].name);
		json_str(j, "title", tools[t].title);
		json_str(j, "description", tools[t].text);
		schema(j, t);
		json_open(j, "annotations");
		json_bool(j, "readOnlyHint", true);
		json_bool(j, "openWorldHint", false);
		json_close(j);
		json_close(j);
	}
	json_close_array(j);
}

/* --- values --- */

static bool has_nul(const struct member *m)
{
	return memchr(m->text, '\0', m->len);
}

static bool read_list(struct arg_list *l, const struct arg_row *row, const struct member *m,
		      struct answer *a)
{
	struct json_value v;

	if (m->val != VAL_ARRAY || parser__slice(a->parser, m, &v) || v.cnt > row->max) {
		answer__fail(a, "%s: give a list of at most %g strings", row->name, row->max);
		return false;
	}
	for (unsigned i = 0; i < v.cnt; i++) {
		if (v.m[i].val != VAL_STRING || v.m[i].len > 256 || has_nul(&v.m[i])) {
			answer__fail(a, "%s: give strings of at most 256 bytes", row->name);
			return false;
		}
		l->v[l->cnt] = strndup(v.m[i].text, v.m[i].len);
		l->cnt += !!l->v[l->cnt];
	}
	return true;
}

static bool read_number(struct arg_val *v, const struct arg_row *row, const struct member *m,
			struct answer *a)
{
	char text[32] = "";

	if (m->val == VAL_NUMBER && m->len < sizeof(text)) {
		memcpy(text, m->text, m->len);
		v->num = strtod(text, NULL);
	}
	if (*text && v->num >= row->min && v->num <= row->max &&
	    (row->type == NUMBER || v->num == floor(v->num)))
		return true;
	answer__fail(a, "%s: give %s from %.15g to %.15g", row->name,
		     row->type == NUMBER ? "a number" : "a whole number", row->min, row->max);
	return false;
}

static bool read_value(struct arg_val *v, const struct arg_row *row, const struct member *m,
		       struct answer *a)
{
	if (m->val == VAL_NULL && row->need == OPTIONAL)
		return true;
	v->is_set = true;
	if (row->type == LIST)
		return read_list(&v->list, row, m, a);
	if (row->type != STRING)
		return read_number(v, row, m, a);
	if (m->val != VAL_STRING || m->len > row->max || m->len < row->min || has_nul(m)) {
		answer__fail(a, "%s: give a string of %g to %g bytes", row->name, row->min,
			     row->max);
		return false;
	}
	v->str = strndup(m->text, m->len);
	return v->str;
}

static const struct arg_row *row_of(enum tool_id t, const struct member *m)
{
	for (unsigned i = 0; i < ARG_CNT; i++)
		if (rows[i].tool == t && strlen(rows[i].name) == m->name_len &&
		    !memcmp(rows[i].name, m->name, m->name_len))
			return &rows[i];
	return NULL;
}

static void fail_unknown(struct answer *a, enum tool_id t, const struct member *m)
{
	char names[512] = "";
	size_t n = 0;

	for (unsigned i = 0; i < ARG_CNT; i++)
		if (rows[i].tool == t && n < sizeof(names))
			n += snprintf(names + n, sizeof(names) - n, " %s", rows[i].name);
	answer__fail(a, "%s has no argument '%.*s'; it has:%s", tools[t].name,
		     (int)(m->name_len < 64 ? m->name_len : 64), m->name, names);
}

static bool read_all(struct args *args, enum tool_id t, const struct json_value *v,
		     struct answer *a)
{
	for (unsigned i = 0; i < v->cnt; i++) {
		const struct arg_row *row = row_of(t, &v->m[i]);

		if (!row) {
			fail_unknown(a, t, &v->m[i]);
			return false;
		}
		/* If a name occurs twice, the first counts. */
		if (!args->v[row - rows].is_set &&
		    !read_value(&args->v[row - rows], row, &v->m[i], a))
			return false;
	}
	return true;
}

bool args__read(struct args *args, enum tool_id t, const struct member *m, struct answer *a)
{
	struct parser *parser = parser__new();
	struct json_value v;
	bool ok;

	memset(args, 0, sizeof(*args));
	if (m && m->val == VAL_NULL)
		m = NULL;
	ok = !m;
	if (parser && m) {
		ok = m->val == VAL_OBJECT && !parser__slice(parser, m, &v);
		if (!ok)
			answer__fail(a, "arguments: give an object");
		ok = ok && read_all(args, t, &v, a);
	}
	parser__free(parser);
	for (unsigned i = 0; ok && i < ARG_CNT; i++) {
		if (rows[i].tool != t || rows[i].need != NEEDED || args->v[i].is_set)
			continue;
		answer__fail(a, "%s needs the argument %s: %s", tools[t].name, rows[i].name,
			     rows[i].text);
		ok = false;
	}
	return ok;
}

void args__free(struct args *args)
{
	for (unsigned i = 0; i < ARG_CNT; i++) {
		free(args->v[i].str);
		for (unsigned k = 0; k < args->v[i].list.cnt; k++)
			free(args->v[i].list.v[k]);
	}
}

bool args__page(const struct args *args, enum arg_id columns, struct answer *a)
{
	const struct arg_val *v = &args->v[columns];

	if (v[0].list.cnt)
		a->columns = &v[0].list;
	if (v[1].is_set)
		a->max = v[1].num;
	if (!v[2].str || !opt_read_u64(v[2].str, &a->first))
		return true;
	answer__fail(a, "page '%s': give `next` of the previous answer, unchanged", v[2].str);
	return false;
}
