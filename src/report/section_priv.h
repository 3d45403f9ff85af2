/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* section.c walks, section_text.c has what a walk for a terminal leaves. */
#ifndef REPORT_SECTION_PRIV_H
#define REPORT_SECTION_PRIV_H

#include "section.h"

/* Rows of a list, at most max; how many were written. */
unsigned section_walk(struct section_cursor *w, const struct section_col *c, unsigned max);

/* A row of the table begins. false: the table is full. */
bool section_text_begin(struct section_text *t);
unsigned section_text_rows(const struct section_text *t);
/* The number of the column in the view, its last one for the name; negative: it is not there. */
int section_text_column(const struct section_text *t, const struct section_col *c);
void section_text_red(struct section_text *t, bool is_red);
void section_text_u64(struct section_cursor *w, const struct section_col *c, uint64_t v);
void section_text_f64(struct section_cursor *w, const struct section_col *c, double v);
void section_text_str(struct section_cursor *w, const struct section_col *c, const char *v);
void section_text_dim(struct section_cursor *w, const struct section_col *c, const uint32_t *v);

#endif /* REPORT_SECTION_PRIV_H */
