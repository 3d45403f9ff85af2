/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef UTIL_OWN_FOLDER_H
#define UTIL_OWN_FOLDER_H

#include <stdbool.h>

/* Returns whether no other user can change what the directory's path leads to. The directory and
 * those above must belong to us or root. Others must not be able to write to it, or to move
 * anything in those above (as in a sticky /tmp). */
bool folder__is_ours(int dir_fd);

#endif /* UTIL_OWN_FOLDER_H */
