/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Compares the lines of a file with the numbers in its end line. */
#ifndef SAVED_LINE_COUNTS_H
#define SAVED_LINE_COUNTS_H

#include "saved.h"

#include "model/losses.h"

/* Lines since the header. */
struct line_counts {
	uint64_t types[TYPE_CNT];
	uint64_t unknown; /* of types that this version does not support */
	uint64_t invalid; /* their types cannot be read */
	uint64_t calls, unfinished, abandoned;
	uint64_t again; /* calls that another line has, too, maybe in another file */
};

void line_counts__event(struct line_counts *c, const struct trace_event *ev);
/* Adds the numbers of missing and of surplus lines. Invalid lines and repeated calls are not
 * included: they are counted where they are read. */
void line_counts__check(const struct line_counts *c, const struct saved_own_end *own,
			struct losses *lost);

#endif /* SAVED_LINE_COUNTS_H */
