/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Detects whether two names lead to one file. */
#ifndef UTIL_SAME_FILE_H
#define UTIL_SAME_FILE_H

#include <stdbool.h>

/*
 * Returns whether writing to a and b would write to one regular file, by any spelling, link or
 * mount. "-" is stdout. For a file that does not exist yet its directory and name are compared.
 * Returns false for devices, pipes and terminals, which accept several outputs.
 */
bool same_file(const char *a, const char *b);

#endif /* UTIL_SAME_FILE_H */
