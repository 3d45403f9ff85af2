/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Opens the next files of outputs that are split. After the sandbox is entered, the tracer may not
 * open files for writing, and it may have lost the user's rights. So a process of ours
 * ("cudatrace-open") opens them, with the rights that the first file was opened with. It receives
 * the names before the sandbox is entered, and afterwards only the number of the output.
 */
#ifndef UTIL_OPENER_H
#define UTIL_OPENER_H

#include <stdbool.h>

/* Starts the process: after safe_open_owner(), before anything is opened that it must not hold.
 * Without it the caller opens the files itself. sandbox: with only the needed privileges. Returns
 * 0, or -errno after reporting. */
int opener__start(bool sandbox);
/* Adds an output by the path of its first file. Returns its number, or -errno after reporting. */
int opener__add(const char *path);
/* Accepts no names from now on. */
void opener__close_names(void);
/* Opens the next file of an output: empty, regular, for writing. Returns its descriptor or -errno;
 * *name is valid until the next call. */
int opener__next(unsigned output, const char **name);
void opener__end(void);

#endif /* UTIL_OPENER_H */
