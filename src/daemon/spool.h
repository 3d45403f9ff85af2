/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's files in a folder, by their names. */
#ifndef DAEMON_SPOOL_H
#define DAEMON_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#define SPOOL_NAME_SZ	    128
#define SPOOL_TRACE	    "trace-"
#define SPOOL_DUMP	    "dump-"
#define SPOOL_DUMP_NAME_MAX 64
#define SPOOL_PART	    ".part" /* of a file that is being written */

/* Of a folder's finished files: the first and the last, by what their names say, and the bytes of
 * all. */
struct spool {
	char oldest[SPOOL_NAME_SZ], newest[SPOOL_NAME_SZ];
	uint64_t bytes;
};

bool spool_is_trace(const char *name);
bool spool_is_part(const char *name);
/* What a dump may be called besides: letters, digits, '.', '_' and '-'. How much of it is used, for
 * it may end like a file's name; -1: it may not. */
int spool_dump_name_len(const char *name);
/* What files are ordered by, and NULL of those that we did not write: time and number. */
const char *spool_stamp(const char *name);
struct spool spool__scan(int dir_fd);
#endif /* DAEMON_SPOOL_H */
