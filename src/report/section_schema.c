/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The JSON Schema of sections and of the report. */
#include "section.h"

#include <string.h>

#include "diff.h"

static const struct {
	const char *json, *more;
} types[SECTION_TYPE_CNT] = {
#define SECTION_TYPE(type, carrier, json, more) [SECTION_TYPE_##type] = {json, more},
#include "section_types.def"
};

static void put_value(struct out *out, enum section_type type, bool or_null)
{
	out_lit(out, "\"type\":");
	out_str(out, or_null ? "[\"" : "\"");
	out_str(out, types[type].json);
	out_str(out, or_null ? "\",\"null\"]" : "\"");
	out_str(out, types[type].more);
}

static void put_member(struct out *out, const struct section_col *c)
{
	out_char(out, '"');
	out_str(out, c->name);
	out_lit(out, "\":{\"description\":");
	out_json_str(out, c->text, strlen(c->text));
	out_char(out, ',');
	switch (c->kind) {
	case SECTION_VALUE:
		put_value(out, c->type, c->nullable || section_is_call_time(c->type));
		break;
	case SECTION_RAW:
		out_str(out, c->schema);
		break;
	case SECTION_OBJECT:
		section_schema(out, c->of, c->nullable);
		break;
	case SECTION_LIST:
		out_lit(out, "\"type\":\"array\",\"items\":{");
		section_schema(out, c->of, false);
		out_char(out, '}');
		break;
	case SECTION_ARRAY:
		out_lit(out, "\"type\":\"array\",\"items\":{");
		put_value(out, c->type, false);
		out_char(out, '}');
		break;
	case SECTION_MAP:
		out_lit(out, "\"type\":\"object\",\"additionalProperties\":{");
		put_value(out, c->type, false);
		out_char(out, '}');
		break;
	case SECTION_SERIES:
		out_lit(out,
			"\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\",\"items\":{");
		put_value(out, c->type, false);
		out_lit(out, "}}");
		break;
	}
	out_char(out, '}');
}

static void put_members(struct out *out, const struct section_table *of)
{
	const char *before = "\n";

	for (unsigned i = 0; i < of->col_cnt; i++) {
		if (!of->cols[i].in_json)
			continue;
		out_str(out, before);
		put_member(out, &of->cols[i]);
		before = ",\n";
	}
}

static void put_required(struct out *out, const struct section_table *of, const char *before)
{
	for (unsigned i = 0; i < of->col_cnt; i++) {
		if (!of->cols[i].in_json || !of->cols[i].required)
			continue;
		out_str(out, before);
		out_char(out, '"');
		out_str(out, of->cols[i].name);
		out_char(out, '"');
		before = ",";
	}
}

void section_schema(struct out *out, const struct section_table *of, bool or_null)
{
	out_str(out, or_null ? "\"type\":[\"object\",\"null\"]" : "\"type\":\"object\"");
	out_lit(out, ",\"additionalProperties\":false,\"properties\":{");
	put_members(out, of);
	out_lit(out, "},\"required\":[");
	put_required(out, of, "");
	out_char(out, ']');
}

void section_list_schema(struct out *out, const struct section_table *of, bool or_null)
{
	out_str(out, or_null ? "\"type\":[\"array\",\"null\"]" : "\"type\":\"array\"");
	out_lit(out, ",\"items\":{");
	section_schema(out, of->cols->of, false);
	out_char(out, '}');
}

static const struct analysis_ops *const analyses[] = {
#define AN(id, name, what) &name##_ops,
#include "analyses.def"
#undef AN
};

static bool may_lack(const struct analysis_ops *ops)
{
	return ops->of_args || ops->needs || ops->of_times;
}

static void put_analyses(struct out *out)
{
	for (unsigned i = 0; i < AN_CNT; i++) {
		out_lit(out, ",\n\"");
		out_str(out, analyses[i]->name);
		out_lit(out, "\":");
		if (!analyses[i]->section) {
			out_lit(out, "true");
			continue;
		}
		out_char(out, '{');
		if (analyses[i]->is_list)
			section_list_schema(out, analyses[i]->section, may_lack(analyses[i]));
		else
			section_schema(out, analyses[i]->section, may_lack(analyses[i]));
		out_char(out, '}');
	}
}

/* The schema of an object whose members are those of several tables. */
static void put_document(struct out *out, const char *title,
			 const struct section_table *const tables[], unsigned cnt, bool is_report)
{
	const char *before = "";

	out_lit(out,
		"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n\"title\":\"");
	out_str(out, title);
	out_lit(out, "\",\"type\":\"object\",\n\"additionalProperties\":false,\"properties\":{");
	if (is_report)
		out_lit(out, "\n\"report\":{\"const\":1},");
	for (unsigned i = 0; i < cnt; i++) {
		out_str(out, before);
		put_members(out, tables[i]);
		before = ",";
	}
	if (is_report)
		put_analyses(out);
	out_lit(out, "},\n\"required\":[");
	if (is_report)
		out_lit(out, "\"report\"");
	for (unsigned i = 0; i < cnt; i++)
		put_required(out, tables[i], is_report || i ? "," : "");
	out_lit(out, "]}\n");
}

void report_schema(struct out *out)
{
	static const struct section_table *const tables[] = REPORT_TABLES;

	put_document(out, "cudatrace report --format=json", tables,
		     sizeof(tables) / sizeof(tables[0]), true);
}

void diff_schema(struct out *out)
{
	static const struct section_table *const tables[] = {&diff_head_table, &rejected_table,
							     &diff_table};

	put_document(out, "cudatrace diff --json", tables, sizeof(tables) / sizeof(tables[0]),
		     false);
}
