/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "section_page.h"

#include <string.h>

#include "section_csv.h"
#include "section.h"

static const char *type_name(const struct section_col *c)
{
	static const char *const types[SECTION_TYPE_CNT] = {
#define SECTION_TYPE(type, carrier, json, more) [SECTION_TYPE_##type] = #type,
#include "section_types.def"
	};

	switch (c->kind) {
	case SECTION_ARRAY:
	case SECTION_RAW:
		return "array";
	case SECTION_MAP:
	case SECTION_SERIES:
		return "map";
	default:
		return types[c->type];
	}
}

/* Heading of the last column of a list's view; NULL: none. */
static const char *head_of(const struct section_col *list)
{
	const char *heading = strchr(list->view, '='), *last = strrchr(list->view, ' ');

	if (heading)
		return heading + 1;
	last = last ? last + 1 : list->view;
	for (unsigned i = 0; i < list->of->col_cnt; i++)
		if (!strcmp(list->of->cols[i].name, last))
			return list->of->cols[i].head;
	return NULL;
}

/* path: of the object that the columns are in, within a row. */
static void put_columns(struct json *j, const struct section_table *of, const char **path,
			unsigned len)
{
	for (unsigned i = 0; i < of->col_cnt; i++) {
		const struct section_col *c = &of->cols[i];

		if (!c->in_json || c->kind == SECTION_LIST)
			continue;
		if (c->kind == SECTION_OBJECT) {
			path[len] = c->name;
			put_columns(j, c->of, path, len + 1);
			continue;
		}
		json_open(j, NULL);
		json_open_array(j, "path");
		for (unsigned n = 0; n < len; n++)
			json_str(j, NULL, path[n]);
		json_str(j, NULL, c->name);
		json_close_array(j);
		json_sym(j, "type", type_name(c));
		if (c->in_text) {
			json_str(j, "head", c->head);
			json_bool(j, "nonzero", c->show & NONZERO);
			json_u64(j, "drop", c->drop);
		}
		json_str(j, "text", c->text);
		json_close(j);
	}
}

static int put_table(void *ctx, const struct section_path *p)
{
	const char *path[SECTION_DEPTH];
	struct json *j = ctx;

	json_open(j, NULL);
	json_str(j, "name", p->name);
	json_open_array(j, "path");
	for (unsigned i = 0; i < p->len; i++) {
		json_open(j, NULL);
		json_str(j, "name", p->cols[i]->name);
		json_bool(j, "is_list", p->cols[i]->kind == SECTION_LIST);
		json_close(j);
	}
	json_close_array(j);
	if (p->len) {
		json_str(j, "head", head_of(p->cols[p->len - 1]));
		json_str(j, "text", p->cols[p->len - 1]->text);
	}
	json_open_array(j, "columns");
	put_columns(j, section_path_table(p), path, 0);
	json_close_array(j);
	json_close(j);
	return 0;
}

void section_page(struct json *j)
{
	json_open_array(j, NULL);
	section_tables(put_table, j);
	json_close_array(j);
}
