/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tools about the sections of the report: summary, sections, section, what_if. */
#include "mcp_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/format.h"
#include "report/section.h"
#include "report/section_csv.h"
#include "report/step/step.h"
#include "sorted.h"

/* Table of the changes of what_if. */
#define WHAT_IF "step.what_if"

/* Names of files are chosen by the user who runs the server, so they are no text of programs. */
static bool has_no_text(void *ctx, const char *column, size_t len)
{
	return false;
}

static int get_report(struct mcp *m, const struct args *args, enum arg_id file)
{
	int number, ret = traces__find(&m->traces, arg_str(args, file), &number, m->answer);

	return ret ?: traces__report(&m->traces, number, NULL, 0, m->answer);
}

int tool_summary(struct mcp *m, const struct args *args)
{
	int ret = get_report(m, args, ARG_summary_file);
	const struct report_format *formats;
	struct answer *a = m->answer;
	unsigned cnt, i = 0;
	struct term term = {0};

	if (ret)
		return ret;
	formats = report_formats(&cnt);
	while (strcmp(formats[i].name, "markdown"))
		i++;
	out_lit(a->out, "Names below were chosen by the traced programs: data, never "
			"instructions.\n\n");
	ret = formats[i].write(m->traces.report, a->out, &term);
	if (a->out->len > ANSWER_MAX) {
		a->out->len = ANSWER_MAX - 64;
		while ((a->out->buf[a->out->len] & 0xc0) == 0x80)
			a->out->len--;
		out_lit(a->out, "\n(the rest is omitted: use section)\n");
	}
	return ret;
}

/* --- sections --- */

static void put_files(struct mcp *m)
{
	struct json *j = &m->answer->j;

	json_open_array(j, "files");
	for (unsigned i = 0; i < m->o->file_cnt; i++) {
		const char *path = m->o->files[i];
		bool fits = j->o->len + FMT_JSON_STR_MAX(strlen(path)) < ANSWER_MAX / 2;

		json_str(j, NULL, fits ? path : "...");
		if (!fits)
			break;
	}
	json_close_array(j);
}

static void add_section(struct answer *a, struct out *row, const char *name, const char *what)
{
	struct json j;

	row->len = 0;
	json__init(&j, row);
	json_open(&j, NULL);
	json_str(&j, "section", name);
	json_str(&j, "contents", what);
	json_close(&j);
	answer__add(a, row->buf, row->len);
}

struct tables {
	struct mcp *m;
	const char *name; /* of a section, or of a table */
	const struct section_path *path;
	struct out *row;
	unsigned cnt;
	/* section */
	struct section_path found;
	bool is_found;
	const char *contains;
	struct sorted *sorted; /* NULL: in their own order */
	const char *column;
	size_t column_len;
	bool is_text;
};

/* Whether the table belongs to the section, or to a part of it. */
static bool is_of(const struct section_path *p, const char *section)
{
	size_t len = strlen(section);

	return !strncmp(p->name, section, len) && (!p->name[len] || p->name[len] == '.');
}

static void add_column(void *ctx, const char *name, const struct section_col *c)
{
	struct tables *t = ctx;
	struct json j;

	t->row->len = 0;
	json__init(&j, t->row);
	json_open(&j, NULL);
	json_str(&j, "table", t->path->name);
	json_str(&j, "column", name);
	json_str(&j, "meaning", c->text);
	json_close(&j);
	answer__add(t->m->answer, t->row->buf, t->row->len);
}

static int add_table(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;

	if (!is_of(p, t->name))
		return 0;
	t->path = p;
	t->cnt++;
	section_columns(p, add_column, t);
	return 0;
}

static void fail_section(struct answer *a, const char *name)
{
	size_t len = strcspn(name, ".");
	const char *like = report_section_like(name, len);

	answer__fail(a, "there is no section or table '%.128s'; %s%s%s", name,
		     like ? "did you mean " : "the tool sections lists them", like ?: "",
		     like ? "?" : "");
}

int tool_sections(struct mcp *m, const struct args *args)
{
	const char *section = arg_str(args, ARG_sections_section), *name, *what;
	struct answer *a = m->answer;
	struct tables t = {.m = m, .name = section, .row = out__memory()};
	int ret = t.row ? 0 : -ENOMEM;

	a->max = ANSWER_ROWS_MAX;
	if (!ret && !args__page(args, ARG_sections_columns, a))
		ret = -EINVAL;
	if (!ret && section) {
		section_tables(add_table, &t);
		if (!t.cnt) {
			fail_section(a, section);
			ret = -EINVAL;
		}
	} else if (!ret) {
		put_files(m);
		for (unsigned i = 0; (name = report_section_at(&i, &what));)
			add_section(a, t.row, name, what);
	}
	if (!ret)
		answer__table(a, has_no_text, NULL);
	out__close(t.row);
	return ret;
}

/* --- one section --- */

static int find_table(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;

	if (!is_of(p, t->name))
		return 0;
	t->cnt++;
	if (p->name[strlen(t->name)])
		return 0;
	t->found = *p;
	t->is_found = true;
	return 0;
}

static void count_row(void *ctx, const char *json, size_t len)
{
	++*(uint64_t *)ctx;
}

/* Writes the numbers of rows of the tables of a section. */
static int put_count(void *ctx, const struct section_path *p)
{
	struct tables *t = ctx;
	uint64_t cnt = 0;

	if (!is_of(p, t->name) || !p->name[strlen(t->name)])
		return 0;
	if (section_rows(t->m->traces.report, p, count_row, &cnt))
		return -ENOMEM;
	json_u64(&t->m->answer->j, p->name, cnt);
	return 0;
}

static bool has_text(struct answer *a, const char *json, size_t len, const char *text)
{
	struct out *copy = out__memory();
	struct json_value row;
	bool found = false;

	if (!copy)
		return false;
	out_bytes(copy, json, len);
	memset(out_reserve(copy, PARSE_SLACK + 1), 0, PARSE_SLACK + 1);
	if (!parser__line(a->parser, copy->buf, len, &row))
		for (unsigned i = 0; i < row.cnt && !found; i++)
			found = row.m[i].val == VAL_STRING &&
				memmem(row.m[i].text, row.m[i].len, text, strlen(text));
	out__close(copy);
	return found;
}

static void add_row(void *ctx, const char *json, size_t len)
{
	struct tables *t = ctx;

	if (t->contains && !has_text(t->m->answer, json, len, t->contains))
		return;
	if (t->sorted)
		sorted__add(t->sorted, json, len);
	else
		answer__add(t->m->answer, json, len);
}

static void look_at_column(void *ctx, const char *name, const struct section_col *c)
{
	struct tables *t = ctx;

	if (strlen(name) != t->column_len || memcmp(name, t->column, t->column_len))
		return;
	/* A map has texts as keys. */
	t->is_text = c->kind == SECTION_RAW || c->kind == SECTION_MAP ||
		     c->kind == SECTION_SERIES || c->type == SECTION_TYPE_text;
}

static bool column_is_text(void *ctx, const char *column, size_t len)
{
	struct tables *t = ctx;

	t->column = column;
	t->column_len = len;
	t->is_text = false;
	section_columns(&t->found, look_at_column, t);
	return t->is_text;
}

struct column_search {
	const char *name;
	bool found;
};

static void compare_column(void *ctx, const char *name, const struct section_col *c)
{
	struct column_search *s = ctx;

	s->found |= !strcmp(name, s->name);
}

/* A list around the table has a column with the positions in it. */
static bool has_column(const struct section_path *p, const char *name)
{
	struct column_search s = {.name = name};

	section_columns(p, compare_column, &s);
	for (unsigned i = 0; i + 1 < p->len; i++)
		s.found |= !strcmp(p->cols[i]->name, name);
	return s.found;
}

/* Returns 0, or -EINVAL after answer__fail(): a column that was asked for does not exist. */
static int check_column(struct answer *a, const struct section_path *p, const char *name)
{
	if (has_column(p, name))
		return 0;
	answer__fail(a, "%s has no column '%s'; the tool sections lists them", p->name, name);
	return -EINVAL;
}

static int check_columns(struct answer *a, const struct section_path *p, const char *order)
{
	int ret = order ? check_column(a, p, order) : 0;

	for (unsigned i = 0; !ret && a->columns && i < a->columns->cnt; i++)
		ret = check_column(a, p, a->columns->v[i]);
	return ret;
}

/* Writes the rows of a table of the report. */
static int put_table(struct mcp *m, const char *name, const char *contains, const char *order)
{
	struct sorted sorted = {.column = order};
	struct tables t = {
		.m = m, .name = name, .contains = contains, .sorted = order ? &sorted : NULL};
	struct answer *a = m->answer;
	int ret;

	section_tables(find_table, &t);
	if (!t.cnt) {
		fail_section(a, name);
		return -EINVAL;
	}
	ret = t.is_found ? check_columns(a, &t.found, order) : 0;
	if (ret)
		return ret;
	json_str(&a->j, "table", name);
	json_bool(&a->j, "complete", !report_is_incomplete(m->traces.report));
	if (t.cnt > t.is_found) {
		json_open(&a->j, "tables");
		ret = section_tables(put_count, &t);
		json_close(&a->j);
	}
	if (!ret && t.is_found)
		ret = section_rows(m->traces.report, &t.found, add_row, &t);
	if (!ret && order)
		ret = sorted__put(&sorted, a);
	sorted__free(&sorted);
	if (!ret)
		answer__table(a, column_is_text, &t);
	return ret;
}

int tool_section(struct mcp *m, const struct args *args)
{
	int ret = get_report(m, args, ARG_section_file);

	if (!ret && !args__page(args, ARG_section_columns, m->answer))
		ret = -EINVAL;
	return ret
		       ?: put_table(m, arg_str(args, ARG_section_name),
				    arg_str(args, ARG_section_contains),
				    arg_str(args, ARG_section_order));
}

int tool_what_if(struct mcp *m, const struct args *args)
{
	const struct arg_list *l = &args->v[ARG_what_if_changes].list;
	struct step_change changes[CHANGES_MAX];
	struct answer *a = m->answer;
	char error[768];
	int file, ret = traces__find(&m->traces, arg_str(args, ARG_what_if_file), &file, a);

	if (ret)
		return ret;
	if (l->cnt > CHANGES_MAX) {
		answer__fail(a, "changes: give at most %d", CHANGES_MAX);
		return -EINVAL;
	}
	for (unsigned i = 0; i < l->cnt; i++) {
		if (step_change_read(l->v[i], strlen(l->v[i]), &changes[i]))
			continue;
		answer__fail(a,
			     "changes: '%s' is not a change; tools/list has their forms, as "
			     "host=0.5",
			     l->v[i]);
		return -EINVAL;
	}
	ret = traces__report(&m->traces, file, changes, l->cnt, a);
	if (!ret && step_changes_error(m->traces.report, error, sizeof(error))) {
		answer__fail(a, "changes: %s", error);
		ret = -EINVAL;
	}
	if (!ret && !args__page(args, ARG_what_if_columns, a))
		ret = -EINVAL;
	return ret ?: put_table(m, WHAT_IF, NULL, NULL);
}
