/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Directories that no other user controls. */
#ifndef UTIL_OWN_FOLDER_H
#define UTIL_OWN_FOLDER_H

#include <stdbool.h>

/* Returns whether no other user can change what the directory's path leads to. The directory and
 * those above must belong to us or root. Others must not be able to write to it, or to move
 * anything in those above (as in a sticky /tmp). is_shared: others may add files to it, too. */
bool folder__is_ours(int dir_fd, bool is_shared);
/* The same for the names in a path, which may be symbolic links: no other user can replace them. */
bool folder__is_path_ours(const char *path);

#endif /* UTIL_OWN_FOLDER_H */
