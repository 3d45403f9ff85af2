/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A folder of trace files that never takes more disk than it may. Lines go into one open file
 * (.part); by size or age it is finished: its closing line is written, and it is renamed. With a
 * command (on_rotate) finished files wait in the folder "pending" until the command has taken them
 * (exit status 0), and are kept until then; when they fill what is allowed, new lines are dropped
 * and counted, not the files.
 *
 *	DIR/trace-20260101T000000Z-000001.jsonl.zst.part     being written
 *	DIR/pending/trace-...jsonl.zst                       for the command
 *	DIR/trace-...jsonl.zst                               done; the oldest go first
 *	DIR/dump-...jsonl.zst                                others' files, which count as the done
 *ones
 *
 * Nothing here ends the daemon: a full disk, or a folder that went away, stops writing until it is
 * better; it is tried again every ten seconds.
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
	uint64_t size;	 /* bytes in a file */
	uint64_t age_ns; /* and how long one is written; 0: any time */
	uint64_t total;	 /* bytes of all files */
	enum compression compress;
	/* Is there a command, and who runs it (files in the folder's ROTATE_PENDING); NULL: nobody.
	 */
	const char *on_rotate;
	struct runner *runner;
	/* The first and the last line of each file. */
	void (*header)(void *ctx, struct out *o);
	void (*end)(void *ctx, struct out *o);
	void *ctx;
};

/* Strings of o must live as long as the rotate. Finishes what an earlier daemon left as .part.
 * NULL: out of memory. A folder that cannot be made is reported, and tried again later. */
struct rotate *rotate__new(const struct rotate_opts *o);
/* One line with its newline. now_ns: CLOCK_MONOTONIC. true: it is in the file that is open then,
 * and counts for its end. */
bool rotate__line(struct rotate *r, const char *line, size_t len, uint64_t now_ns);
/* The same in another thread, while none does anything else with it. false: the one that does has
 * to call rotate__line() for that line. */
bool rotate__try_line(struct rotate *r, const char *line, size_t len, uint64_t now_ns,
		      bool *written);
/* The same for lines that are a frame (util/zframe.h) and were len bytes. false: they have to be
 * given one by one. */
bool rotate__try_frame(struct rotate *r, const char *frame, size_t frame_len, size_t len,
		       uint64_t lines);
/* Every second or so: age, what is buffered, the command, a new try after an error. */
void rotate__tick(struct rotate *r, uint64_t now_ns);
/* Finishes the file now. */
void rotate__finish_file(struct rotate *r, uint64_t now_ns);
/* TIME-NUMBER for the name of another file in the folder. It goes up whatever the clock does: the
 * file whose is the lowest is the oldest. */
#define ROTATE_STAMP_SZ 40
void rotate__next_stamp(struct rotate *r, char text[ROTATE_STAMP_SZ]);
/* What one file of a size may take. */
uint64_t rotate_file_room(uint64_t size, enum compression how);
/* For another file in the folder: removes old ones until it fits; none when it cannot. 0 or -errno.
 */
int rotate__make_room(struct rotate *r, uint64_t bytes, uint64_t now_ns);
void rotate__stats(const struct rotate *r, struct metrics_files *s);
/* Other limits from now on; the open file is finished when it goes elsewhere. */
void rotate__reload(struct rotate *r, const struct rotate_opts *o, uint64_t now_ns);
/* Finishes the file; a command that runs is left to end by itself. */
void rotate__free(struct rotate *r, uint64_t now_ns);

#endif /* DAEMON_ROTATE_H */
