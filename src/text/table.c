/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "util/plain.h"

#define GAP "  "
/* Indent of a name on its own line. */
#define NAME_INDENT 6
/* Columns of a name that is not shortened. */
#define UNCUT_MAX 400

static int columns(const char *s)
{
	return term_columns(s, strlen(s));
}

void table__start(struct table *t, const char *name_head)
{
	t->name_head = name_head;
	t->col_cnt = t->row_cnt = 0;
	t->first = t->last = NULL;
	t->is_cut = false;
}

void table__col(struct table *t, struct table_col col)
{
	if (t->col_cnt < TABLE_COLS)
		t->col[t->col_cnt++] = col;
}

void table__init(struct table *t, const char *heads)
{
	char *p, *next, *save = NULL;

	snprintf(t->text, sizeof(t->text), "%s", heads);
	table__start(t, "");
	for (p = strtok_r(t->text, "|", &save); p; p = next) {
		next = strtok_r(NULL, "|", &save);
		if (next)
			table__col(t, (struct table_col){.head = p});
		else
			t->name_head = p;
	}
}

struct table_row *table__row(struct table *t, const char *name)
{
	struct table_row *r = calloc(1, sizeof(*r) + t->col_cnt * CELL_SZ);

	if (!r) {
		t->is_cut = true;
		return NULL;
	}
	r->name = name;
	*(t->last ? &t->last->next : &t->first) = r;
	t->last = r;
	t->row_cnt++;
	return r;
}

void table__free(struct table *t)
{
	for (struct table_row *r = t->first, *next; r; r = next) {
		next = r->next;
		free(r->text);
		free(r);
	}
}

/* Blanks before it are delayed in gap, so that no line ends in blanks. */
static void put_right(FILE *f, const char *s, int width, int *gap)
{
	*gap += strlen(GAP) + width - columns(s);
	if (!*s)
		return;
	fprintf(f, "%*s", *gap, "");
	plain_print(f, s, strlen(s));
	*gap = 0;
}

/* Width of a column; 0: hidden. */
static int width_of(const struct table *t, unsigned c)
{
	int width = columns(t->col[c].head);
	bool any = false;

	for (const struct table_row *r = t->first; r; r = r->next) {
		any |= *r->cell[c];
		if (columns(r->cell[c]) > width)
			width = columns(r->cell[c]);
	}
	return any || !t->col[c].if_any ? width : 0;
}

/* The column to drop next, the last of equal ones; TABLE_COLS: none may be dropped. */
static unsigned next_drop(const struct table *t, const int width[TABLE_COLS])
{
	unsigned best = TABLE_COLS;

	for (unsigned c = 0; c < t->col_cnt; c++)
		if (width[c] && t->col[c].drop &&
		    (best == TABLE_COLS || t->col[c].drop >= t->col[best].drop))
			best = c;
	return best;
}

/* A deep node still has space for its name. */
static int indent_of(const struct term *term, const struct table_row *r)
{
	int indent = r->depth * (term->width < 100 ? 1 : 2);

	return indent < term->width / 3 ? indent : term->width / 3;
}

/* The width of each column, 0 for one that is not shown. Returns the width left for the name. */
static int fit(const struct table *t, const struct term *term, int width[TABLE_COLS])
{
	int room = term->width - (int)strlen(GAP), want = 0;

	for (unsigned c = 0; c < t->col_cnt; c++) {
		width[c] = width_of(t, c);
		room -= width[c] ? width[c] + (int)strlen(GAP) : 0;
	}
	for (const struct table_row *r = t->first; r; r = r->next) {
		int len = strlen(r->name), indent = indent_of(term, r);

		len = (len < TABLE_NAME_MIN ? len : TABLE_NAME_MIN) +
		      (indent < term->width / 8 ? indent : term->width / 8);
		want = len > want ? len : want;
	}
	while (room < want) {
		unsigned c = next_drop(t, width);

		if (c == TABLE_COLS)
			break;
		room += width[c] + (int)strlen(GAP);
		width[c] = 0;
	}
	return room;
}

static void put_name(const struct term *term, const struct table_row *r, int room, int gap)
{
	int indent = indent_of(term, r);

	room = term->is_uncut ? UNCUT_MAX : room - indent;
	if (room < TABLE_NAME_MIN && (int)strlen(r->name) > room) {
		room = term->width - NAME_INDENT;
		indent = room - indent > TABLE_NAME_MIN ? indent : room - TABLE_NAME_MIN;
		indent = indent > 0 ? indent : 0;
		fprintf(term->f, "\n%*s", NAME_INDENT + indent, "");
		room -= indent;
	} else {
		fprintf(term->f, "%*s" GAP, gap + indent, "");
	}
	term_name(term, r->name, room > TABLE_NAME_MIN ? room : TABLE_NAME_MIN);
}

static void print_markdown_row(const struct table *t, const struct term *term, const int *width,
			       const struct table_row *r)
{
	for (unsigned c = 0; c < t->col_cnt; c++) {
		const char *cell = r ? r->cell[c] : t->col[c].head;

		if (!width[c])
			continue;
		fputs("| ", term->f);
		term_escaped(term, cell, strlen(cell));
		putc(' ', term->f);
	}
	fputs("| ", term->f);
	for (unsigned d = 0; r && d < r->depth; d++)
		fputs("\u00b7 ", term->f);
	term_escaped(term, r ? r->name : t->name_head, strlen(r ? r->name : t->name_head));
	fputs(" |\n", term->f);
}

/* Numbers are at the right. */
static void print_markdown(const struct table *t, const struct term *term, const int *width)
{
	putc('\n', term->f);
	print_markdown_row(t, term, width, NULL);
	for (unsigned c = 0; c < t->col_cnt; c++)
		fputs(width[c] ? "|---:" : "", term->f);
	fputs("|---|\n", term->f);
	for (const struct table_row *r = t->first; r; r = r->next)
		print_markdown_row(t, term, width, r);
}

static void print_text(const struct table *t, const struct term *term, const int *width, int room)
{
	int gap = 0;
	unsigned c;

	fputs(term->color ? "\033[2m" : "", term->f);
	for (c = 0; c < t->col_cnt; c++)
		if (width[c])
			put_right(term->f, t->col[c].head, width[c], &gap);
	fprintf(term->f, GAP "%s%s\n", t->name_head, term->color ? "\033[0m" : "");
	for (const struct table_row *r = t->first; r; r = r->next) {
		fputs(r->red && term->color ? "\033[31m" : "", term->f);
		gap = 0;
		for (c = 0; c < t->col_cnt; c++)
			if (width[c])
				put_right(term->f, r->cell[c], width[c], &gap);
		put_name(term, r, room, gap);
		fputs(r->red && term->color ? "\033[0m\n" : "\n", term->f);
	}
}

/* "*" after each " %" of a text of size bytes, as far as there is space. */
static void star(char *text, size_t size)
{
	size_t len = strlen(text), at;

	for (char *c = text; (c = strstr(c, " %")) && len + 1 < size; c += 3) {
		at = c + 2 - text;
		memmove(text + at + 1, text + at, ++len - at);
		text[at] = '*';
	}
}

static void star_all(struct table *t)
{
	char *text;

	for (struct table_row *r = t->first; r; r = r->next) {
		for (unsigned i = 0; i < t->col_cnt; i++)
			star(r->cell[i], CELL_SZ);
		if (!r->text || !strstr(r->text, " %"))
			continue;
		text = realloc(r->text, 2 * strlen(r->text));
		if (!text)
			continue;
		star(text, 2 * strlen(text));
		r->name = r->text = text;
	}
}

void table__print(struct table *t, const struct term *term)
{
	int width[TABLE_COLS], room;

	if (term->is_partial)
		star_all(t);
	room = fit(t, term, width);

	if (term->is_markdown)
		print_markdown(t, term, width);
	else
		print_text(t, term, width, room);
	if (t->is_cut)
		term_para(term, "out of memory: rows or names are missing");
}
