/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* section.c walks; section_text.c keeps the cells of a walk for a terminal, section_csv.c those of
 * a line. */
#ifndef REPORT_SECTION_PRIV_H
#define REPORT_SECTION_PRIV_H

#include "section.h"

void section_visit(const struct section_cursor *w, const struct section_table *of,
		   struct section_cursor *to);
/* Writes at most max rows of a list; returns their number. */
unsigned section_walk(struct section_cursor *w, const struct section_col *c, unsigned max);

/* Begins a row of the table. Returns false without memory. */
bool section_text_begin(struct section_text *t);
unsigned section_text_rows(const struct section_text *t);
/* The column's number in the view; the name is last. Negative: the view lacks it. */
int section_text_column(const struct section_text *t, const struct section_col *c);
void section_text_red(struct section_text *t, bool is_red);
void section_text_depth(struct section_text *t, unsigned depth);
void section_text_u64(struct section_cursor *w, const struct section_col *c, uint64_t v);
void section_text_f64(struct section_cursor *w, const struct section_col *c, double v);
void section_text_str(struct section_cursor *w, const struct section_col *c, const char *v);
void section_text_dim(struct section_cursor *w, const struct section_col *c, const uint32_t *v);

bool section_csv_wants(const struct section_cursor *w, const struct section_col *c);
/* The first column of an object. */
unsigned section_csv_col(const struct section_cursor *w, const struct section_col *c);
void section_csv_begin(struct section_cursor *w);
void section_csv_end(struct section_cursor *w);
uint64_t section_csv_rows(const struct section_csv *csv);

#endif /* REPORT_SECTION_PRIV_H */
