/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is shown: lines of cells and a name, to be sorted by any column. Of all processes, or of the
 * functions of one. The screen and the text are made of it.
 */
#ifndef TOP_VIEW_H
#define TOP_VIEW_H

#include "stats.h"
#include "text/numbers.h"

#define VIEW_COLS 9

struct view_col {
	const char *head;
	int width;
	bool is_text;	/* to the left, sorted by its letters */
	unsigned spare; /* left out where the screen is narrow, the highest first; 0: never */
	const char *help;
};

struct view_line {
	const char *name; /* any bytes; of the row or the function */
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
	bool reversed; /* the least first; of text, the last first */
};

/* What it is sorted by when nobody has said. */
extern const struct view_order procs_order, fns_order;

/* Lines that were there are reused. false: out of memory, there are fewer. */
bool view__of_procs(struct view *s, const struct top_stats *r, struct view_order order);
bool view__of_fns(struct view *s, const struct top_stats *r, const struct top_row *row,
		  struct view_order order);
void view__free(struct view *s);

/* Above it. What happened in the interval, and what was lost since the start: "nothing was lost".
 */
void view_sums(const struct top_stats *r, char *text, size_t size);
/* Returns whether something was. */
bool view_lost(const struct top_stats *r, char *text, size_t size);

#endif /* TOP_VIEW_H */
