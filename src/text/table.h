/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small tables for a terminal: columns of numbers, then a name that takes the rest of the line and
 * is cut in the middle when it must be (as in strace -c). And numbers as people read them.
 */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLS 7
#define TABLE_ROWS 32
#define CELL_SZ	   24

struct table_row {
	char cell[TABLE_COLS][CELL_SZ]; /* UTF-8 */
	const char *name;		/* any bytes */
	bool red;
};

struct table {
	char text[128]; /* that head and name_head point into */
	const char *head[TABLE_COLS];
	const char *name_head;
	unsigned col_cnt, row_cnt;
	struct table_row rows[TABLE_ROWS];
};

/* Where and how lines are written. */
struct term {
	FILE *f;
	int width;
	bool color;
};

/* heads: as many column headings as there are columns, then the name's, separated by '|'. */
void table__init(struct table *t, const char *heads);
/* A row with empty cells; NULL when the table is full. */
struct table_row *table__row(struct table *t, const char *name);
void table__print(const struct table *t, const struct term *term);

/* "12,345" */
void human_count(char cell[CELL_SZ], uint64_t n);
/* "512 B", "1.50 MiB" */
void human_bytes(char cell[CELL_SZ], uint64_t bytes);
/* "850 ns", "1.25 µs", "12.3 ms", "3.21 s" */
void human_time(char cell[CELL_SZ], double ns);
/* "45.2 %"; nothing when there is no whole */
void human_share(char cell[CELL_SZ], double part, double whole);
/* bytes in ns: "12.3 GB/s" (1e9), as bandwidths are given; nothing when ns is 0 */
void human_rate(char cell[CELL_SZ], double bytes, double ns);

/* At most width columns of s, cut in the middle; what a terminal could obey becomes '?'. */
void term_name(const struct term *term, const char *s, int width);
/* Words of s, broken at the width; lines after the first begin with indent spaces. */
void term_text(const struct term *term, const char *s, int indent);
void term_bold(const struct term *term, const char *s);

#endif /* TEXT_TABLE_H */
