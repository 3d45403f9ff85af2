/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef UTIL_OWN_FOLDER_H
#define UTIL_OWN_FOLDER_H

#include <stdbool.h>

/* Nobody else decides what the folder's path leads to: it and the folders above belong to root (who
 * has "/") or to us, and others can neither write to it nor move anything in those above, as in a
 * sticky /tmp. */
bool folder__is_ours(int dir_fd);

#endif /* UTIL_OWN_FOLDER_H */
