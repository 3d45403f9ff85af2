/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's files in a directory, recognised by name. */
#ifndef DAEMON_SPOOL_H
#define DAEMON_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#define SPOOL_NAME_SZ	    128
#define SPOOL_TRACE	    "trace-"
#define SPOOL_DUMP	    "dump-"
#define SPOOL_PROFILE	    "profile-"
#define SPOOL_PROFILE_END   ".pb.gz"
#define SPOOL_DUMP_NAME_MAX 64
#define SPOOL_PART	    ".part" /* suffix of a file that is being written */

/* Finished files of a folder: first and last by the order of their names, and the bytes of all. */
struct spool {
	char oldest[SPOOL_NAME_SZ], newest[SPOOL_NAME_SZ];
	uint64_t bytes;
};

bool spool_is_trace(const char *name);
bool spool_is_part(const char *name);
/* Checks a dump's additional name: letters, digits, '.', '_' and '-'. Returns the length that is
 * used, because it may end like a file's name; -1: invalid. */
int spool_dump_name_len(const char *name);
/* The part of a name that orders files, time and number; NULL for files that we did not write. */
const char *spool_stamp(const char *name);
struct spool spool__scan(int dir_fd);
#endif /* DAEMON_SPOOL_H */
