/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The JSON Schema of sections and of the report. */
#include "section.h"

#include <string.h>

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
		put_value(out, c->type, c->nullable);
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
	}
	out_char(out, '}');
}

void section_schema(struct out *out, const struct section_table *of, bool or_null)
{
	const char *before = "\n";

	out_str(out, or_null ? "\"type\":[\"object\",\"null\"]" : "\"type\":\"object\"");
	out_lit(out, ",\"additionalProperties\":false,\"properties\":{");
	for (unsigned i = 0; i < of->col_cnt; i++) {
		if (!of->cols[i].in_json)
			continue;
		out_str(out, before);
		put_member(out, &of->cols[i]);
		before = ",\n";
	}
	out_lit(out, "},\"required\":[");
	before = "";
	for (unsigned i = 0; i < of->col_cnt; i++) {
		if (!of->cols[i].in_json || !of->cols[i].required)
			continue;
		out_str(out, before);
		out_char(out, '"');
		out_str(out, of->cols[i].name);
		out_char(out, '"');
		before = ",";
	}
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

void report_schema(struct out *out)
{
	out_lit(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n"
		     "\"title\":\"cudatrace report --format=json\",\"type\":\"object\",\n"
		     "\"additionalProperties\":false,\"properties\":{\n\"report\":{\"const\":1},\n"
		     "\"complete\":true,\"lost\":true,\"chosen\":true,"
		     "\"rejected\":true,\"files\":{");
	section_list_schema(out, &report_files_table, false);
	out_lit(out, "},\n\"traces\":{");
	section_list_schema(out, &report_traces_table, false);
	out_char(out, '}');
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
			section_list_schema(out, analyses[i]->section, analyses[i]->of_args);
		else
			section_schema(out, analyses[i]->section, analyses[i]->of_args);
		out_char(out, '}');
	}
	out_lit(out, "},\n\"required\":[\"report\",\"complete\",\"lost\",\"chosen\",\"files\"]}\n");
}
