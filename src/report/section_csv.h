/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sections as tables: one for each array of objects, and one with a single line for the other
 * members of a section. As CSV by RFC 4180 (docs/REPORT.md describes the form), or as JSON by row.
 */
#ifndef REPORT_SECTION_CSV_H
#define REPORT_SECTION_CSV_H

#include "report.h"

#define SECTION_DEPTH	 6
#define SECTION_TABLE_SZ 128

struct section_path {
	char name[SECTION_TABLE_SZ]; /* as kernels.list: its members in JSON */
	enum analysis_id id;	     /* AN_CNT: the report itself */
	const struct section_table *from;
	const struct section_col *cols[SECTION_DEPTH]; /* objects and lists on the way to it */
	unsigned len;
};

/* Calls fn for each table of the report, until it returns a value other than 0; returns it. */
int section_tables(int (*fn)(void *ctx, const struct section_path *p), void *ctx);
/* The table that has its lines. */
const struct section_table *section_path_table(const struct section_path *p);
/* Writes a table with its header line. Returns 0 or -ENOMEM. */
int section_csv(const struct report *r, const struct section_path *p, struct out *out);
/* Calls fn for each column of the table; a member of a nested object has its name, as gpu.ns. */
typedef void (*section_column_fn)(void *ctx, const char *name, const struct section_col *c);
void section_columns(const struct section_path *p, section_column_fn fn, void *ctx);
/* Calls fn for each row of the table as a JSON object with those members, without those that have
 * no value. Before them are the positions in the lists that the row is in. Returns 0 or -ENOMEM. */
typedef void (*section_row_fn)(void *ctx, const char *json, size_t len);
int section_rows(const struct report *r, const struct section_path *p, section_row_fn fn,
		 void *ctx);

#endif /* REPORT_SECTION_CSV_H */
