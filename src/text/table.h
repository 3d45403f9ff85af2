/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small tables for a terminal: columns of numbers, then a name that takes the rest of the line.
 *
 * A name has at least TABLE_NAME_MIN columns of the terminal, or as many as it needs: columns of
 * numbers that may be dropped are dropped first. A name that still does not fit has a line of its
 * own.
 */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdbool.h>

#include "numbers.h"
#include "term.h"

#define TABLE_COLS     32
#define TABLE_ROWS     32 /* at most this many for an overview; a table can have more */
#define TABLE_NAME_MIN 40

struct table_row {
	struct table_row *next;
	const char *name; /* any bytes */
	char *text;	  /* NULL, or an allocated name, freed with the table */
	unsigned depth;	  /* in a tree: the name is indented */
	bool red;
	char cell[][CELL_SZ]; /* one for each column; UTF-8 */
};

struct table_col {
	const char *head;
	unsigned drop; /* on a narrow terminal the highest is dropped first; 0: never dropped */
	bool if_any;   /* shown only if a row has a cell */
};

struct table {
	char text[256]; /* the headings of table__init() */
	struct table_col col[TABLE_COLS];
	const char *name_head;
	unsigned col_cnt, row_cnt;
	struct table_row *first, *last;
	bool is_cut; /* a row or a name could not be allocated */
};

/* heads: the headings of the columns, then that of the name, separated by '|'. */
void table__init(struct table *t, const char *heads);
/* As table__init(), column by column: all before the first row. Columns beyond TABLE_COLS are not
 * shown. */
void table__start(struct table *t, const char *name_head);
void table__col(struct table *t, struct table_col col);
/* A row with empty cells, valid until table__free(); NULL if memory is short. */
struct table_row *table__row(struct table *t, const char *name);
/* Prints the rows, and a note if rows are missing for lack of memory. To be called once. */
void table__print(struct table *t, const struct term *term);
void table__free(struct table *t);

#endif /* TEXT_TABLE_H */
