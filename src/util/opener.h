/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The next files of outputs that are split. Whoever traces may open nothing for writing any more,
 * and is nobody's user but root's without capabilities: a process of ours ("cudatrace-open") does
 * it, with the rights that the first file was opened with. It is told the names before the sandbox
 * is entered, and from then on nothing but whose file comes next.
 */
#ifndef UTIL_OPENER_H
#define UTIL_OPENER_H

#include <stdbool.h>

/* After safe_open_owner(), before anything that must not outlive us is opened. Without it the
 * caller opens the files. sandbox: with the few rights that this takes. 0, or -errno after
 * reporting. */
int opener__start(bool sandbox);
/* An output by the path of its first file: its number, or -errno after reporting. */
int opener__add(const char *path);
/* No names from now on. */
void opener__close_names(void);
/* Opens the next file of an output: empty, for writing, a regular one. Its descriptor, or -errno;
 * *name is its name until the next call. */
int opener__next(unsigned output, const char **name);
void opener__end(void);

#endif /* UTIL_OPENER_H */
