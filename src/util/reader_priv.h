/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by reader.c, which sends requests, reader_file.c, which serves them, and the tests. */
#ifndef UTIL_READER_PRIV_H
#define UTIL_READER_PRIV_H

#include "reader.h"

#include <stdbool.h>

struct reader_request {
	pid_t pid;
	int flags;
	bool copy;
	bool link;	    /* copies where the link leads */
	unsigned range_cnt; /* not 0: a request for memory, without a path */
	size_t max;
	union {
		char path[4096 + 64];
		struct reader_range ranges[READER_RANGES_MAX];
	};
};

/* Returns a descriptor or -errno. */
int reader_serve(const struct reader_request *r);
/* Opens (O_PATH) the path inside the directory root_fd, which it does not leave. Returns a
 * descriptor or -errno. flags: 0 or O_NOFOLLOW. */
int reader_walk(int root_fd, const char *path, int flags);

#endif /* UTIL_READER_PRIV_H */
