/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Do two names lead to one file? */
#ifndef UTIL_SAME_FILE_H
#define UTIL_SAME_FILE_H

#include <stdbool.h>

/*
 * Would writing to a and to b write to one regular file, by any spelling, link or mount? "-" is
 * stdout. A file need not be there yet: then its folder and its name count. Devices, pipes and
 * terminals take the output of many: false for them.
 */
bool same_file(const char *a, const char *b);

#endif /* UTIL_SAME_FILE_H */
