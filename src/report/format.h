/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The forms that a report is written in, one row each in format.c. */
#ifndef REPORT_FORMAT_H
#define REPORT_FORMAT_H

#include "report.h"
#include "util/out.h"

struct report_format {
	const char *name;   /* of --format */
	const char *suffix; /* of a file that is named after the trace */
	bool for_files;	    /* not for terminals: without -o the report goes to a file */
	/* Writes a finished report. It must not use term->f. */
	int (*write)(const struct report *r, struct out *o, const struct term *term);
};

/* Width and colour of the terminal at fd; 120 columns if fd is not a terminal. f is NULL. */
struct term term_of_fd(int fd);

const struct report_format *report_formats(unsigned *cnt);
/* Finds the format by a file name's suffix (.html, .json, ...); default: text. */
const struct report_format *report_format_by_path(const char *path);

#endif /* REPORT_FORMAT_H */
