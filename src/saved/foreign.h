/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Recognizes files that are not saved traces by their first bytes: compressed files, traces of
 * other tools, our own other outputs. */
#ifndef SAVED_FOREIGN_H
#define SAVED_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that foreign__find() needs of a file, unless the file is shorter. */
#define FOREIGN_PEEK 4096

/*
 * Detects a file that is not a trace by its first bytes (for gzip and zstd: its uncompressed
 * bytes). Fills text with one line: what the file is, and what to do with it. path is the file's
 * name, "-" for stdin; some formats are recognized by their name only.
 */
bool foreign__find(const char *path, const char *buf, size_t len, char *text, size_t size);

#endif /* SAVED_FOREIGN_H */
