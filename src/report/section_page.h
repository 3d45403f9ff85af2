/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Descriptions of the tables of a report, for the HTML page (page/html/tables.js). */
#ifndef REPORT_SECTION_PAGE_H
#define REPORT_SECTION_PAGE_H

struct json;

/*
 * Writes an array of all tables, in the order of the report. An object has the table's name as in
 * section_csv.h, the path of its rows in the report, the heading of its names, and columns: their
 * paths in a row, types, headings (if a terminal has them), and descriptions.
 */
void section_page(struct json *j);

#endif /* REPORT_SECTION_PAGE_H */
