/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The displayed view: lines of cells and a name, sorted by any column. Shows all processes, or the
 * functions of one. The screen and the text output are made from it.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include "stats.h"
#include "text/numbers.h"

#define VIEW_COLS 9

struct view_col {
	const char *head;
	int width;
	bool is_text;	/* left-aligned, sorted alphabetically */
	unsigned spare; /* dropped on a narrow screen, the highest first; 0: never */
	const char *help;
};

struct view_line {
	const char *name; /* any bytes; name of the row or the function */
	const void *key;  /* struct top_row, struct api_fn */
	bool is_over, failed;
	double value[VIEW_COLS];
	char cell[VIEW_COLS][CELL_SZ];
};

struct view {
	const struct view_col *cols;
	unsigned col_cnt;
	const char *name_head;
	struct view_line *lines;
	unsigned cnt;
};

struct view_order {
	unsigned col;  /* col_cnt: the name */
	bool reversed; /* ascending; for text, descending */
};

/* Default sort orders. */
extern const struct view_order procs_order, fns_order;

/* Reuses existing lines. false: out of memory, some lines are missing. */
bool view__of_procs(struct view *s, const struct top_stats *r, struct view_order order);
bool view__of_fns(struct view *s, const struct top_stats *r, const struct top_row *row,
		  struct view_order order);
void view__free(struct view *s);

/* Text above the table: sums of the interval, and losses since the start ("nothing was lost"). */
void view_sums(const struct top_stats *r, char *text, size_t size);
/* Returns whether something was lost. */
bool view_lost(const struct top_stats *r, char *text, size_t size);

#endif /* TOP_VIEW_H */
