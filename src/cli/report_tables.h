/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* report --format=csv: a file for each table. */
#ifndef CLI_REPORT_TABLES_H
#define CLI_REPORT_TABLES_H

#include "opts.h"

struct report;

/* Ends the program with a message if --section names a table that the report lacks. */
void report_tables_check(const struct opts *o);
/* Writes the tables into the folder dir, which is created. A single table that --section names is
 * the file -o, or stdout. Returns 0 or -errno, after reporting the error. */
int report_tables(const struct opts *o, const struct report *r, const char *dir);

#endif /* CLI_REPORT_TABLES_H */
