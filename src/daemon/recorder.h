/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flight recorder: keeps the last seconds of a trace in memory, to be dumped when something
 * happens. Lines are stored in chunks that are compressed when they are full. A dump is a sequence
 * of these chunks, which is a valid zstd file.
 */
#ifndef DAEMON_RECORDER_H
#define DAEMON_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "sink/delivery/pending_lines.h"

struct recorder;

struct recorder_stats {
	uint64_t lines;	    /* held now */
	uint64_t bytes;	    /* memory of them */
	uint64_t oldest_ns; /* time of the oldest; 0: none */
	uint64_t cut;	    /* lines dropped early because memory was full */
};

/* memory: maximum bytes. NULL: out of memory. */
struct recorder *recorder__new(uint64_t keep_ns, uint64_t memory);
/* Adds one line. now_ns: CLOCK_MONOTONIC, never going back. */
void recorder__line(struct recorder *r, const struct line *line, uint64_t now_ns);
/* Adds lines as a frame (util/zframe.h), with their number and their sums (line__count());
 * otherwise the same. */
void recorder__frame(struct recorder *r, const char *frame, size_t len, uint64_t lines,
		     const struct trace_end *sums, uint64_t now_ns);
/* Adds the stored lines to the counts of an end line. */
void recorder__count(const struct recorder *r, struct trace_end *end);
void recorder__stats(const struct recorder *r, struct recorder_stats *s);
/* Writes first (a header line), the stored lines, and last, to fd. 0 or -errno. The lines stay
 * stored. */
int recorder__dump(struct recorder *r, int fd, const char *first, size_t first_len,
		   const char *last, size_t last_len);
void recorder__free(struct recorder *r);

#endif /* DAEMON_RECORDER_H */
