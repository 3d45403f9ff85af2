/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is shown: lines of cells and a name, to be sorted by any column. Of all processes, or of the
 * functions of one. The screen and the text are made of it.
 */
#ifndef TOP_SHEET_H
#define TOP_SHEET_H

#include "rows.h"
#include "text/numbers.h"

#define SHEET_COLS 9

struct sheet_col {
	const char *head;
	int width;
	bool is_text;	/* to the left, sorted by its letters */
	unsigned spare; /* left out where the screen is narrow, the highest first; 0: never */
	const char *help;
};

struct sheet_line {
	const char *name; /* any bytes; of the row or the function */
	const void *key;  /* struct top_row, struct api_fn */
	bool is_over, failed;
	double value[SHEET_COLS];
	char cell[SHEET_COLS][CELL_SZ];
};

struct sheet {
	const struct sheet_col *cols;
	unsigned col_cnt;
	const char *name_head;
	struct sheet_line *lines;
	unsigned cnt;
};

struct sheet_order {
	unsigned col;  /* col_cnt: the name */
	bool reversed; /* the least first; of text, the last first */
};

/* What it is sorted by when nobody has said. */
extern const struct sheet_order procs_order, fns_order;

/* Lines that were there are reused. false: out of memory, there are fewer. */
bool sheet__of_procs(struct sheet *s, const struct top_rows *r, struct sheet_order order);
bool sheet__of_fns(struct sheet *s, const struct top_rows *r, const struct top_row *row,
		   struct sheet_order order);
void sheet__free(struct sheet *s);

/* Above it. What happened in the interval, and what was lost since the start: "nothing was lost".
 */
void sheet_sums(const struct top_rows *r, char *text, size_t size);
/* Returns whether something was. */
bool sheet_lost(const struct top_rows *r, char *text, size_t size);

#endif /* TOP_SHEET_H */
