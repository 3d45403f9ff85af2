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
#define TABLE_ROWS     32
#define TABLE_CELLS    512 /* rows times columns */
#define TABLE_NAME_MIN 40

struct table_row {
	char (*cell)[CELL_SZ]; /* one for each column; UTF-8 */
	const char *name;      /* any bytes */
	bool red;
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
	struct table_row rows[TABLE_ROWS];
	char cells[TABLE_CELLS + TABLE_COLS][CELL_SZ];
};

/* heads: the headings of the columns, then that of the name, separated by '|'. */
void table__init(struct table *t, const char *heads);
/* The same, column by column: all before the first row. What exceeds TABLE_COLS is not shown. */
void table__start(struct table *t, const char *name_head);
void table__col(struct table *t, struct table_col col);
/* A row with empty cells; NULL when the table is full. A table of up to 16 columns has room for
 * TABLE_ROWS. */
struct table_row *table__row(struct table *t, const char *name);
void table__print(const struct table *t, const struct term *term);

#endif /* TEXT_TABLE_H */
