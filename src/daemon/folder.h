/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's files in a folder, by their names. */
#ifndef DAEMON_FOLDER_H
#define DAEMON_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#define FOLDER_NAME_SZ	     128
#define FOLDER_TRACE	     "trace-"
#define FOLDER_DUMP	     "dump-"
#define FOLDER_DUMP_NAME_MAX 64
#define FOLDER_PART	     ".part" /* of a file that is being written */

/* Of a folder's finished files: the first and the last, by what their names say, and the bytes of
 * all. */
struct folder {
	char oldest[FOLDER_NAME_SZ], newest[FOLDER_NAME_SZ];
	uint64_t bytes;
};

bool folder_is_trace(const char *name);
bool folder_is_part(const char *name);
/* What a dump may be called besides: letters, digits, '.', '_' and '-'. How much of it is used, for
 * it may end like a file's name; -1: it may not. */
int folder_dump_name_len(const char *name);
/* What files are ordered by, and NULL of those that we did not write: time and number. */
const char *folder_stamp(const char *name);
struct folder folder__look(int dir_fd);
#endif /* DAEMON_FOLDER_H */
