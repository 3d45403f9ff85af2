/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sections as CSV by RFC 4180: a table for each array of objects, and one with a single line for
 * the other members of a section. docs/REPORT.md describes the form.
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
/* Writes a table with its header line. */
void section_csv(const struct report *r, const struct section_path *p, struct out *out);

#endif /* REPORT_SECTION_CSV_H */
