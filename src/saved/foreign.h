/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that are no saved trace, by how they begin: packed ones, other tools' traces, our other
 * outputs. */
#ifndef SAVED_FOREIGN_H
#define SAVED_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* What foreign__find() wants to see of a file, unless it is shorter. */
#define FOREIGN_PEEK 4096

/*
 * Is a file that begins with these bytes (of what gzip and zstd packed: unpacked) something else?
 * Fills text with what it is and what to do with it, in one line. path: its name, "-" for stdin;
 * some formats are known by their names alone.
 */
bool foreign__find(const char *path, const char *buf, size_t len, char *text, size_t size);

#endif /* SAVED_FOREIGN_H */
