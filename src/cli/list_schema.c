/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cudatrace list --schema: the JSON Schema of a line, from the rows of events.def and trace.def. */
#include "list.h"

#include <stdio.h>
#include <string.h>

#include "decode/ops.h"
#include "model/event_table.h"
#include "model/trace.h"
#include "util/out.h"

/* Calls and system calls share some types: this distinguishes their lines, as the reader of saved
 * traces does. */
#define IS_SYSTEM_CALL                                                                             \
	"{\"properties\":{\"type\":{\"const\":\"kernel\"}},\"required\":[\"type\",\"device\"],"    \
	"\"not\":{\"required\":[\"id\"]}}"

static void put_str(struct out *out, const char *s)
{
	out_json_str(out, s, strlen(s));
}

/* Names in an array. */
struct names {
	struct out *out;
	bool comma;
};

static void put_name(struct names *n, const char *name)
{
	out_str(n->out, n->comma ? "," : "");
	put_str(n->out, name);
	n->comma = true;
}

static bool is_kinds_own(enum event_type type)
{
	for (unsigned k = 0; k < EVENT_KIND_CNT; k++)
		if (event_kinds[k].type == (int)type)
			return true;
	return false;
}

static void put_call_types(struct names *n)
{
	for (unsigned t = 0; t < TYPE_CNT; t++)
		if (!is_kinds_own(t))
			put_name(n, event_type_name(t));
}

/* "enum":[ the words of text ] */
static void put_words(struct names *n, const char *text)
{
	char word[32];
	size_t len;

	for (; *text; text += len + (text[len] == ' ')) {
		len = strcspn(text, " ");
		snprintf(word, sizeof(word), "%.*s", (int)len, text);
		put_name(n, word);
	}
}

static void put_call_ops(struct names *n)
{
	for (unsigned op = 0; op < OP_CNT; op++) {
		bool is_new = true;

		/* Several ops may have the same name. */
		for (unsigned i = 0; i < op && is_new; i++)
			is_new = strcmp(op_desc[i].name, op_desc[op].name) != 0;
		if (is_new)
			put_name(n, op_desc[op].name);
	}
}

/* The subject of a line: a kind of event; or, with kind NULL, a header or an end. */
struct line {
	const char *name, *text;
	const struct event_kind_desc *kind;
	const struct event_rows *rows;
};

static void put_type(struct out *out, const struct line *l)
{
	struct names n = {.out = out};

	if (l->kind && l->kind->type < 0) {
		out_lit(out, "\"enum\":[");
		put_call_types(&n);
		out_char(out, ']');
		return;
	}
	out_lit(out, "\"const\":");
	put_str(out, l->kind ? event_type_name(l->kind->type) : l->name);
}

static void put_op(struct out *out, const struct line *l)
{
	struct names n = {.out = out};

	if (!*l->kind->ops && l->kind != &event_kinds[EVENT_CALL]) {
		out_lit(out, "\"type\":\"string\",\"pattern\":\"^[a-z0-9_-]+$\"");
		return;
	}
	out_lit(out, "\"enum\":[");
	if (*l->kind->ops)
		put_words(&n, l->kind->ops);
	else
		put_call_ops(&n);
	out_char(out, ']');
}

static void put_property(struct out *out, const struct line *l, const struct event_field *f)
{
	char text[1024];

	snprintf(text, sizeof(text), *f->unit ? "%s (%s)" : "%s", f->text, f->unit);
	put_str(out, f->name);
	out_lit(out, ":{\"description\":");
	put_str(out, text);
	out_char(out, ',');
	if (f->form == FORM_type)
		put_type(out, l);
	else if (f->form == FORM_op)
		put_op(out, l);
	else /* without its braces */
		out_bytes(out, form_schemas[f->form] + 1, strlen(form_schemas[f->form]) - 2);
	out_char(out, '}');
}

static void put_line(struct out *out, const struct line *l)
{
	static const struct event_rows none;
	const struct event_rows *parts[] = {l->kind ? &line_rows : &none, l->rows};
	struct names required = {.out = out};
	const char *before = "\n";

	put_str(out, l->name);
	out_lit(out, ":{\"description\":");
	put_str(out, l->text);
	out_lit(out, ",\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
	for (unsigned i = 0; i < 2; i++) {
		for (const struct event_field *f = parts[i]->first; f < parts[i]->end; f++) {
			out_str(out, before);
			put_property(out, l, f);
			before = ",\n";
		}
	}
	out_lit(out, "},\n\"required\":[");
	for (unsigned i = 0; i < 2; i++)
		for (const struct event_field *f = parts[i]->first; f < parts[i]->end; f++)
			if (f->always)
				put_name(&required, f->name);
	out_lit(out, "]}");
}

static void put_choice(struct out *out, const struct line *l)
{
	bool is_driver = l->kind == &event_kinds[EVENT_DRIVER];

	out_lit(out, "{\"if\":");
	if (is_driver) {
		out_lit(out, IS_SYSTEM_CALL);
	} else {
		out_lit(out, "{\"properties\":{\"type\":{");
		put_type(out, l);
		out_lit(out, "}},\"required\":[\"type\"]");
		if (l->kind == &event_kinds[EVENT_CALL])
			out_lit(out, ",\"not\":" IS_SYSTEM_CALL);
		out_char(out, '}');
	}
	out_lit(out, ",\"then\":{\"$ref\":\"#/$defs/");
	out_str(out, l->name);
	out_lit(out, "\"}}");
}

void list_schema(struct out *out)
{
	struct line lines[EVENT_KIND_CNT + 2];
	unsigned cnt = 0;
	struct names types = {.out = out};
	char title[64];

	lines[cnt++] = (struct line){"header", "the first line of a trace", NULL, &header_rows};
	for (unsigned k = 0; k < EVENT_KIND_CNT; k++) {
		const struct event_kind_desc *kind = &event_kinds[k];

		lines[cnt++] = (struct line){kind->name, kind->text, kind, &kind->rows};
	}
	lines[cnt++] = (struct line){"end", "the last line of a trace", NULL, &end_rows};

	snprintf(title, sizeof(title), "a line of cudatrace --jsonl, schema %d", TRACE_SCHEMA);
	out_lit(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\n\"title\":");
	put_str(out, title);
	out_lit(out, ",\n\"type\":\"object\",\n\"properties\":{\"type\":{\"enum\":[");
	put_name(&types, "header");
	for (unsigned t = 0; t < TYPE_CNT; t++)
		put_name(&types, event_type_name(t));
	put_name(&types, "end");
	out_lit(out, "]}},\n\"required\":[\"ts\",\"type\",\"name\"],\n\"allOf\":[\n");
	for (unsigned i = 0; i < cnt; i++) {
		put_choice(out, &lines[i]);
		out_str(out, i + 1 < cnt ? ",\n" : "],\n\"$defs\":{\n");
	}
	for (unsigned i = 0; i < cnt; i++) {
		put_line(out, &lines[i]);
		out_str(out, i + 1 < cnt ? ",\n" : "}}\n");
	}
}
