/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small tables for a terminal: columns of numbers, then a name that uses the rest of the line and
 * is shortened in the middle if needed (as in strace -c).
 */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdbool.h>

#include "numbers.h"
#include "term.h"

#define TABLE_COLS 9
#define TABLE_ROWS 32

struct table_row {
	char cell[TABLE_COLS][CELL_SZ]; /* UTF-8 */
	const char *name;		/* any bytes */
	bool red;
};

struct table {
	char text[128]; /* storage of head and name_head */
	const char *head[TABLE_COLS];
	const char *name_head;
	unsigned col_cnt, row_cnt;
	struct table_row rows[TABLE_ROWS];
};

/* heads: the headings of the columns, then that of the name, separated by '|'. */
void table__init(struct table *t, const char *heads);
/* Adds a row with empty cells; NULL if the table is full. */
struct table_row *table__row(struct table *t, const char *name);
void table__print(const struct table *t, const struct term *term);

#endif /* TEXT_TABLE_H */
