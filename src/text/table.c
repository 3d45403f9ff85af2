/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "table.h"

#include <string.h>

#include "util/plain.h"

#define GAP "  "
/* Indent of a name on its own line. */
#define NAME_INDENT 6

static int columns(const char *s)
{
	return term_columns(s, strlen(s));
}

void table__start(struct table *t, const char *name_head)
{
	t->name_head = name_head;
	t->col_cnt = t->row_cnt = 0;
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
	struct table_row *r = &t->rows[t->row_cnt];

	if (t->row_cnt == TABLE_ROWS || (t->row_cnt + 1) * t->col_cnt > TABLE_CELLS)
		return NULL;
	*r = (struct table_row){.cell = t->cells + t->row_cnt * t->col_cnt, .name = name};
	memset(r->cell, 0, t->col_cnt * CELL_SZ);
	t->row_cnt++;
	return r;
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

	for (unsigned i = 0; i < t->row_cnt; i++) {
		any |= *t->rows[i].cell[c];
		if (columns(t->rows[i].cell[c]) > width)
			width = columns(t->rows[i].cell[c]);
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

/* The width of each column, 0 for one that is not shown. Returns the width left for the name. */
static int fit(const struct table *t, const struct term *term, int width[TABLE_COLS])
{
	int room = term->width - (int)strlen(GAP), want = 0;

	for (unsigned c = 0; c < t->col_cnt; c++) {
		width[c] = width_of(t, c);
		room -= width[c] ? width[c] + (int)strlen(GAP) : 0;
	}
	for (unsigned i = 0; i < t->row_cnt; i++)
		if ((int)strlen(t->rows[i].name) > want)
			want = strlen(t->rows[i].name);
	want = want < TABLE_NAME_MIN ? want : TABLE_NAME_MIN;
	while (room < want) {
		unsigned c = next_drop(t, width);

		if (c == TABLE_COLS)
			break;
		room += width[c] + (int)strlen(GAP);
		width[c] = 0;
	}
	return room;
}

static void put_name(const struct term *term, const char *name, int room, int gap)
{
	if (room < TABLE_NAME_MIN && (int)strlen(name) > room) {
		fprintf(term->f, "\n%*s", NAME_INDENT, "");
		room = term->width - NAME_INDENT;
	} else {
		fprintf(term->f, "%*s" GAP, gap, "");
	}
	term_name(term, name, room > TABLE_NAME_MIN ? room : TABLE_NAME_MIN);
}

void table__print(const struct table *t, const struct term *term)
{
	int width[TABLE_COLS], room = fit(t, term, width), gap = 0;
	const struct table_row *r;
	unsigned c;

	fputs(term->color ? "\033[2m" : "", term->f);
	for (c = 0; c < t->col_cnt; c++)
		if (width[c])
			put_right(term->f, t->col[c].head, width[c], &gap);
	fprintf(term->f, GAP "%s%s\n", t->name_head, term->color ? "\033[0m" : "");
	for (r = t->rows; r < t->rows + t->row_cnt; r++) {
		fputs(r->red && term->color ? "\033[31m" : "", term->f);
		gap = 0;
		for (c = 0; c < t->col_cnt; c++)
			if (width[c])
				put_right(term->f, r->cell[c], width[c], &gap);
		put_name(term, r->name, room, gap);
		fputs(r->red && term->color ? "\033[0m\n" : "\n", term->f);
	}
}
