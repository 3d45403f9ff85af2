/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The forms that a report is written in, one row each in format.c. */
#ifndef REPORT_FORMAT_H
#define REPORT_FORMAT_H

#include "report.h"
#include "util/out.h"

struct report_format {
	const char *name;   /* of --format */
	const char *suffix; /* of a file that is named after the trace */
	bool for_files;	    /* nothing for a terminal: a file is made when no output is named */
	/* Writes a finished report. term->f is not to be used. */
	int (*write)(const struct report *r, struct out *o, const struct term *term);
};

/* As wide as the terminal, in colour on one; for what is none, 120 columns. f is NULL. */
struct term term_of_fd(int fd);

const struct report_format *report_formats(unsigned *cnt);
/* By the end of a file's name (.html, .json, ...); text for any other. */
const struct report_format *report_format_by_path(const char *path);

#endif /* REPORT_FORMAT_H */
