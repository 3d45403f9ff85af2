/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by reader.c, which asks, and reader_file.c, which answers; and the tests. */
#ifndef UTIL_READER_PRIV_H
#define UTIL_READER_PRIV_H

#include "reader.h"

#include <stdbool.h>

struct reader_request {
	pid_t pid;
	int flags;
	bool copy;
	unsigned range_cnt; /* not 0: of memory; there is no path */
	size_t max;
	union {
		char path[4096 + 64];
		struct reader_range ranges[READER_RANGES_MAX];
	};
};

/* A descriptor or -errno. */
int reader_serve(const struct reader_request *r);
/* O_PATH of what the path is called in the folder root_fd, which it does not leave, or -errno.
 * flags: 0 or O_NOFOLLOW. */
int reader_walk(int root_fd, const char *path, int flags);

#endif /* UTIL_READER_PRIV_H */
