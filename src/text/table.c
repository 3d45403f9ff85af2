/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "table.h"

#include <string.h>

#include "util/plain.h"

#define GAP "  "

static int columns(const char *s)
{
	return term_columns(s, strlen(s));
}

void table__init(struct table *t, const char *heads)
{
	char *p, *save = NULL;
	unsigned n = 0;

	snprintf(t->text, sizeof(t->text), "%s", heads);
	t->row_cnt = 0;
	t->name_head = "";
	for (p = strtok_r(t->text, "|", &save); p; p = strtok_r(NULL, "|", &save)) {
		if (n < TABLE_COLS)
			t->head[n] = p;
		t->name_head = p;
		n++;
	}
	t->col_cnt = n - 1;
}

struct table_row *table__row(struct table *t, const char *name)
{
	struct table_row *r = &t->rows[t->row_cnt];

	if (t->row_cnt == TABLE_ROWS)
		return NULL;
	t->row_cnt++;
	memset(r, 0, sizeof(*r));
	r->name = name;
	return r;
}

static void put_right(FILE *f, const char *s, int width)
{
	fprintf(f, "%*s", width - columns(s), "");
	plain_print(f, s, strlen(s));
}

void table__print(const struct table *t, const struct term *term)
{
	int width[TABLE_COLS], used = 0;
	const struct table_row *r;
	unsigned i, c;

	for (c = 0; c < t->col_cnt; c++) {
		width[c] = columns(t->head[c]);
		for (i = 0; i < t->row_cnt; i++)
			if (columns(t->rows[i].cell[c]) > width[c])
				width[c] = columns(t->rows[i].cell[c]);
		used += width[c] + strlen(GAP);
	}
	fputs(term->color ? "\033[2m" : "", term->f);
	for (c = 0; c < t->col_cnt; c++) {
		fputs(GAP, term->f);
		put_right(term->f, t->head[c], width[c]);
	}
	fprintf(term->f, GAP "%s%s\n", t->name_head, term->color ? "\033[0m" : "");
	for (r = t->rows; r < t->rows + t->row_cnt; r++) {
		fputs(r->red && term->color ? "\033[31m" : "", term->f);
		for (c = 0; c < t->col_cnt; c++) {
			fputs(GAP, term->f);
			put_right(term->f, r->cell[c], width[c]);
		}
		fputs(GAP, term->f);
		term_name(term, r->name, term->width - used - (int)strlen(GAP));
		fputs(r->red && term->color ? "\033[0m\n" : "\n", term->f);
	}
}
