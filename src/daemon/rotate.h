/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A directory of trace files within a disk limit. Lines go into one open file (.part). When it
 * reaches a size or an age, its closing line is written, and it is renamed. With a command
 * (on_rotate), finished files wait in the directory "pending" until the command succeeds (exit
 * status 0). When they fill the limit, new lines are dropped and counted, not the files.
 *
 *     DIR/trace-20260101T000000Z-000001.jsonl.zst.part     being written
 *     DIR/pending/trace-...jsonl.zst                       for the command
 *     DIR/trace-...jsonl.zst                               done; the oldest are removed first
 *     DIR/dump-...jsonl.zst                                others' files, which count as done ones
 *
 * Errors here do not end the daemon: a full disk or a missing directory stops writing, which is
 * tried again every ten seconds.
 */
#ifndef DAEMON_ROTATE_H
#define DAEMON_ROTATE_H

#include <stdbool.h>

#include "metrics/metrics.h"
#include "util/zfile.h"

#define ROTATE_PENDING "pending"

struct out;
struct rotate;
struct runner;

struct rotate_opts {
	const char *dir;
	uint64_t size;	 /* maximum bytes of a file */
	uint64_t age_ns; /* maximum age of a file; 0: no limit */
	uint64_t total;	 /* maximum bytes of all files */
	enum compression compress;
	/* The configured command, and the runner that runs it (for files in the directory's
	 * ROTATE_PENDING); NULL: none. */
	const char *on_rotate;
	struct runner *runner;
	/* Write the first and the last line of each file. */
	void (*header)(void *ctx, struct out *o);
	void (*end)(void *ctx, struct out *o);
	void *ctx;
};

/* Strings of o must live as long as the rotate. Finishes .part files of an earlier daemon. NULL:
 * out of memory. A directory that cannot be created is reported, and tried again later. */
struct rotate *rotate__new(const struct rotate_opts *o);
/* Writes one line with its newline. now_ns: CLOCK_MONOTONIC. true: the line is in the file that is
 * open then, and counts for its end. */
bool rotate__line(struct rotate *r, const char *line, size_t len, uint64_t now_ns);
/* As rotate__line(), in another thread, while no other thread uses it. false: the owner has to call
 * rotate__line() for that line. */
bool rotate__try_line(struct rotate *r, const char *line, size_t len, uint64_t now_ns,
		      bool *written);
/* As rotate__try_line(), for lines compressed as a frame (util/zframe.h), of len bytes
 * uncompressed. false: they have to be passed one by one. */
bool rotate__try_frame(struct rotate *r, const char *frame, size_t frame_len, size_t len,
		       uint64_t lines);
/* To be called about every second: handles age, buffered data, the command, and retries after an
 * error. */
void rotate__tick(struct rotate *r, uint64_t now_ns);
/* Finishes the file now. */
void rotate__finish_file(struct rotate *r, uint64_t now_ns);
/* Makes TIME-NUMBER for the name of another file in the directory. It increases whatever the clock
 * does: the file with the lowest is the oldest. */
#define ROTATE_STAMP_SZ 40
void rotate__next_stamp(struct rotate *r, char text[ROTATE_STAMP_SZ]);
/* Returns the maximum disk space of one file of this size. */
uint64_t rotate_file_room(uint64_t size, enum compression how);
/* Makes space for another file in the folder: removes old ones until it fits, none when it cannot
 * fit. 0 or -errno. */
int rotate__make_room(struct rotate *r, uint64_t bytes, uint64_t now_ns);
/* The directory, after rotate__make_room(). */
int rotate__dir(const struct rotate *r);
void rotate__stats(const struct rotate *r, struct metrics_files *s);
/* Applies new options; the open file is finished if the directory changes. */
void rotate__reload(struct rotate *r, const struct rotate_opts *o, uint64_t now_ns);
/* Finishes the file; a running command is left to end by itself. */
void rotate__free(struct rotate *r, uint64_t now_ns);

#endif /* DAEMON_ROTATE_H */
