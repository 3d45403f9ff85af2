/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flight recorder: the last seconds of a trace, in memory, for when something happens. Lines are
 * kept in chunks that are compressed when they are full; a dump is these chunks one after the
 * other, which is a zstd file as it is.
 */
#ifndef DAEMON_RECORDER_H
#define DAEMON_RECORDER_H

#include <stddef.h>
#include <stdint.h>

struct recorder;

struct recorder_stats {
	uint64_t lines;	    /* held now */
	uint64_t bytes;	    /* memory that they take */
	uint64_t oldest_ns; /* when the oldest was added; 0: none */
	uint64_t cut;	    /* lines that went before their time, for lack of memory */
};

/* memory: bytes at most. NULL: out of memory. */
struct recorder *recorder__new(uint64_t keep_ns, uint64_t memory);
/* One line with its newline. now_ns: CLOCK_MONOTONIC, never going back. */
void recorder__line(struct recorder *r, const char *line, size_t len, uint64_t now_ns);
/* So many lines as a frame (util/zframe.h). The same. */
void recorder__frame(struct recorder *r, const char *frame, size_t len, uint64_t lines,
		     uint64_t now_ns);
void recorder__stats(const struct recorder *r, struct recorder_stats *s);
/* Writes first (a header line), what is held, and last, to fd. 0 or -errno. Nothing is forgotten.
 */
int recorder__dump(struct recorder *r, int fd, const char *first, size_t first_len,
		   const char *last, size_t last_len);
void recorder__free(struct recorder *r);

#endif /* DAEMON_RECORDER_H */
