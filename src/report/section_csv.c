/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The members of a line are written as JSON into memory, and then as cells. */
#include "section_csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "losses.h"
#include "section_priv.h"
#include "util/law.h"

struct section_csv {
	const struct section_path *path;
	struct out *out, *line;
	struct cell {
		size_t from, to; /* in line->buf: its member with the comma before it */
	} * cells;
	unsigned cnt, at;		   /* columns; the one that is written */
	unsigned index[SECTION_DEPTH + 1]; /* of the rows around the line */
	uint64_t rows;
	section_row_fn row; /* not NULL: rows are JSON, in out */
	void *ctx;
	struct out *heads; /* names of the columns, each followed by a comma */
};

static const struct analysis_ops *const analyses[AN_CNT] = {
#define AN(id, name, what) [AN_##id] = &name##_ops,
#include "analyses.def"
#undef AN
};

static unsigned width_of(const struct section_col *c);

/* Columns of the table before end. */
static unsigned width_to(const struct section_table *of, const struct section_col *end)
{
	unsigned cnt = 0;

	for (const struct section_col *c = of->cols; c < end; c++)
		cnt += width_of(c);
	return cnt;
}

static unsigned width_of(const struct section_col *c)
{
	if (!c->in_json || c->kind == SECTION_LIST)
		return 0;
	return c->kind == SECTION_OBJECT ? width_to(c->of, c->of->cols + c->of->col_cnt) : 1;
}

const struct section_table *section_path_table(const struct section_path *p)
{
	return p->len ? p->cols[p->len - 1]->of : p->from;
}

static int tables_below(const struct section_path *p, const struct section_table *of,
			int (*fn)(void *ctx, const struct section_path *p), void *ctx)
{
	int ret = 0;

	for (unsigned i = 0; !ret && i < of->col_cnt; i++) {
		const struct section_col *c = &of->cols[i];
		struct section_path next = *p;
		size_t len = strlen(next.name);

		if (!c->in_json || (c->kind != SECTION_LIST && c->kind != SECTION_OBJECT))
			continue;
		law(next.len < SECTION_DEPTH && len + strlen(c->name) + 2 < sizeof(next.name));
		if (next.len == SECTION_DEPTH)
			continue;
		next.cols[next.len++] = c;
		/* A section that is a list has one member, of the same name. */
		if (len)
			snprintf(next.name + len, sizeof(next.name) - len, ".%s", c->name);
		else
			snprintf(next.name, sizeof(next.name), "%s", c->name);
		if (c->kind == SECTION_LIST && width_to(c->of, c->of->cols + c->of->col_cnt))
			ret = fn(ctx, &next);
		if (!ret)
			ret = tables_below(&next, c->of, fn, ctx);
	}
	return ret;
}

int section_tables(int (*fn)(void *ctx, const struct section_path *p), void *ctx)
{
	static const struct section_table *const of_report[] = REPORT_TABLES;
	int ret = 0;

	for (unsigned i = 0; !ret && i < sizeof(of_report) / sizeof(of_report[0]); i++)
		ret = tables_below(&(struct section_path){.id = AN_CNT, .from = of_report[i]},
				   of_report[i], fn, ctx);
	for (unsigned i = 0; !ret && i < AN_CNT; i++) {
		const struct section_table *of = analyses[i]->section;
		struct section_path p = {.id = i, .from = of};

		if (!of)
			continue;
		if (!analyses[i]->is_list) {
			snprintf(p.name, sizeof(p.name), "%s", analyses[i]->name);
			if (width_to(of, of->cols + of->col_cnt))
				ret = fn(ctx, &p);
		}
		if (!ret)
			ret = tables_below(&p, of, fn, ctx);
	}
	return ret;
}

/* Returns whether the cursor is in a line of the table, and not above it. */
static bool is_line(const struct section_cursor *w)
{
	return w->depth >= w->csv->path->len;
}

bool section_csv_wants(const struct section_cursor *w, const struct section_col *c)
{
	struct section_csv *csv = w->csv;

	if (!is_line(w))
		return c == csv->path->cols[w->depth];
	if (!c->in_json || c->kind == SECTION_LIST)
		return false;
	csv->cells[csv->at].to = csv->line->len;
	csv->at = w->col + width_to(w->of, c);
	csv->cells[csv->at].from = csv->line->len;
	return true;
}

unsigned section_csv_col(const struct section_cursor *w, const struct section_col *c)
{
	return is_line(w) ? w->col + width_to(w->of, c) : 0;
}

void section_csv_begin(struct section_cursor *w)
{
	struct section_csv *csv = w->csv;

	csv->rows++;
	if (!is_line(w)) {
		csv->index[w->depth] = w->n;
	} else if (w->depth == csv->path->len) {
		out__rollback(csv->line);
		w->j->comma = false;
		memset(csv->cells, 0, (csv->cnt + 1) * sizeof(*csv->cells));
		csv->at = csv->cnt;
	}
}

uint64_t section_csv_rows(const struct section_csv *csv)
{
	return csv->rows;
}

/* A character that needs an escape in JSON. Returns how many bytes of JSON it has. */
static size_t put_escaped(struct out *out, const char *s)
{
	if (s[1] != 'u') {
		/* the quote of a text in quotes */
		out_str(out, s[1] == '"' ? "\"\"" : "\\");
		return 2;
	}
	if (!memcmp(s + 2, "0009", 4))
		out_char(out, '\t');
	else if (!memcmp(s + 2, "000a", 4))
		out_char(out, '\n');
	else
		out_lit(out, "\xef\xbf\xbd");
	return 6;
}

/* Returns whether a spreadsheet treats it as a formula; some also accept the full-width forms of
 * the signs.
 */
static bool is_formula(const char *s, size_t len)
{
	static const char *const starts[] = {
		"=",
		"+",
		"-",
		"@",
		"\\u0009",
		"\\u000a",
		"\\u000d",
		"\xef\xbc\x9d",
		"\xef\xbc\x8b",
		"\xef\xbc\x8d",
		"\xef\xbc\xa0",
	};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (len >= strlen(starts[i]) && !memcmp(s, starts[i], strlen(starts[i])))
			return true;
	return false;
}

/* The text of a JSON string, which begins at s behind its quote. */
static void put_text(struct out *out, const char *s, size_t len)
{
	bool is_quoted = memchr(s, ',', len) || memchr(s, '\\', len);

	if (is_quoted)
		out_char(out, '"');
	if (is_formula(s, len))
		out_char(out, '\'');
	for (size_t i = 0, n; i < len; i += n) {
		n = 1;
		if (s[i] == '\\')
			n = put_escaped(out, s + i);
		else
			out_char(out, s[i]);
	}
	if (is_quoted)
		out_char(out, '"');
}

/* An array or an object: its JSON, in quotes. */
static void put_nested(struct out *out, const char *s, size_t len)
{
	out_char(out, '"');
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '"')
			out_char(out, '"');
		out_char(out, s[i]);
	}
	out_char(out, '"');
}

/* The value of a member; end: it has none. */
static const char *value_of(const char *s, const char *end)
{
	const char *value = s < end ? memmem(s, end - s, "\":", 2) : NULL;

	return value && value[2] != 'n' ? value + 2 : end;
}

/* false: the cell is empty. */
static bool put_cell(struct out *out, const char *s, const char *end)
{
	const char *value = value_of(s, end);

	if (value == end || (*value == '"' && end - value == 2))
		return false;
	if (*value == '"')
		put_text(out, value + 1, end - value - 2);
	else if (*value == '[' || *value == '{')
		put_nested(out, value, end - value);
	else
		out_bytes(out, value, end - value);
	return true;
}

static void put_object(struct section_csv *csv)
{
	const struct section_path *p = csv->path;
	const char *line = csv->line->buf, *head = csv->heads->buf;
	struct out *out = csv->out;
	char sep = '{';

	out->len = out->mark = 0;
	for (unsigned i = 0; i + 1 < p->len; i++) {
		if (p->cols[i]->kind != SECTION_LIST)
			continue;
		out_char(out, sep);
		out_json_str(out, p->cols[i]->name, strlen(p->cols[i]->name));
		out_char(out, ':');
		out_u64(out, csv->index[i + 1]);
		sep = ',';
	}
	for (unsigned i = 0; i < csv->cnt; i++) {
		const char *end = line + csv->cells[i].to;
		const char *value = value_of(line + csv->cells[i].from, end);
		size_t len = strcspn(head, ",");

		if (value < end) {
			out_char(out, sep);
			out_json_str(out, head, len);
			out_char(out, ':');
			out_bytes(out, value, end - value);
			sep = ',';
		}
		head += len + 1;
	}
	out_str(out, sep == '{' ? "{}" : "}");
	if (!out->failed)
		csv->row(csv->ctx, out->buf, out->len);
}

static void put_line(struct section_csv *csv)
{
	const struct section_path *p = csv->path;
	const char *line = csv->line->buf;
	bool is_empty = true;

	for (unsigned i = 0; i + 1 < p->len; i++) {
		if (p->cols[i]->kind != SECTION_LIST)
			continue;
		is_empty = false;
		out_u64(csv->out, csv->index[i + 1]);
		out_char(csv->out, ',');
	}
	for (unsigned i = 0; i < csv->cnt; i++) {
		if (i)
			out_char(csv->out, ',');
		if (put_cell(csv->out, line + csv->cells[i].from, line + csv->cells[i].to) || i)
			is_empty = false;
	}
	/* An empty line would not be a row. */
	if (is_empty)
		out_lit(csv->out, "\"\"");
	out_lit(csv->out, "\r\n");
	out__commit(csv->out);
}

void section_csv_end(struct section_cursor *w)
{
	struct section_csv *csv = w->csv;

	if (w->depth != csv->path->len || csv->line->failed)
		return;
	csv->cells[csv->at].to = csv->line->len;
	if (csv->row)
		put_object(csv);
	else
		put_line(csv);
}

static void columns(const struct section_table *of, const char *before, section_column_fn fn,
		    void *ctx)
{
	char name[SECTION_TABLE_SZ];

	for (unsigned i = 0; i < of->col_cnt; i++) {
		const struct section_col *c = &of->cols[i];
		bool is_object = c->kind == SECTION_OBJECT;

		if (!width_of(c))
			continue;
		snprintf(name, sizeof(name), "%s%s%s", before, c->name, is_object ? "." : "");
		if (is_object)
			columns(c->of, name, fn, ctx);
		else
			fn(ctx, name, c);
	}
}

void section_columns(const struct section_path *p, section_column_fn fn, void *ctx)
{
	columns(section_path_table(p), "", fn, ctx);
}

static void put_head(void *ctx, const char *name, const struct section_col *c)
{
	out_str(ctx, name);
	out_char(ctx, ',');
}

/* Visits the rows of the table. Returns 0 or -ENOMEM. */
static int walk(const struct report *r, struct section_csv *csv)
{
	const struct section_path *p = csv->path;
	const struct section_table *of = section_path_table(p);
	struct section_cursor w = {.r = r, .csv = csv, .s = r};
	struct losses_view lost = {.of = {{.l = &r->lost}}, .cnt = 1};
	bool is_silent = false;
	char buf[SECTION_BUF];
	struct json j;
	int ret;

	csv->line = out__memory();
	csv->cnt = width_to(of, of->cols + of->col_cnt);
	csv->cells = calloc(csv->cnt + 1, sizeof(*csv->cells));
	if (p->id < AN_CNT) {
		w.s = r->an[p->id];
		is_silent = report_lacks(r, p->id);
	}
	if (csv->cells && csv->line && !is_silent) {
		csv->line->is_checked = true;
		json__init(&j, csv->line);
		w.j = &j;
		w.buf = buf;
		section_visit(
			&w, p->from,
			&(struct section_cursor){.x = p->from == &losses_table ? &lost : w.s});
	}
	ret = csv->cells && csv->line && !csv->line->failed ? 0 : -ENOMEM;
	free(csv->cells);
	out__close(csv->line);
	return ret;
}

int section_csv(const struct report *r, const struct section_path *p, struct out *out)
{
	struct section_csv csv = {.path = p, .out = out};

	for (unsigned i = 0; i + 1 < p->len; i++)
		if (p->cols[i]->kind == SECTION_LIST)
			put_head(out, p->cols[i]->name, NULL);
	section_columns(p, put_head, out);
	out->len--;
	out_lit(out, "\r\n");
	out__commit(out);
	return walk(r, &csv);
}

int section_rows(const struct report *r, const struct section_path *p, section_row_fn fn, void *ctx)
{
	struct section_csv csv = {
		.path = p, .row = fn, .ctx = ctx, .out = out__memory(), .heads = out__memory()};
	int ret = -ENOMEM;

	if (csv.out && csv.heads) {
		csv.out->is_checked = true;
		section_columns(p, put_head, csv.heads);
		out_char(csv.heads, '\0');
		ret = walk(r, &csv);
		if (csv.out->failed)
			ret = -ENOMEM;
	}
	out__close(csv.heads);
	out__close(csv.out);
	return ret;
}
