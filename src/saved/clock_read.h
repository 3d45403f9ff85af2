/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads files for their collectives, before they are read for a report, and compares the clocks of
 * their machines. */
#ifndef SAVED_CLOCK_READ_H
#define SAVED_CLOCK_READ_H

#include "clocks.h"
#include "stream.h"

/* Adds the files of st and, if c has several units then, compares their clocks. Pipes, which can be
 * read only once, do not count. Without memory, clocks are not compared. */
void clock_read__files(struct clocks *c, struct lines_all *all, const struct stream *streams,
		       unsigned cnt);

#endif /* SAVED_CLOCK_READ_H */
