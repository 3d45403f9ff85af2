/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads saved traces in one pass: JSONL files, pipes, stdin, uncompressed or compressed by gzip or
 * zstd. Prints what is wrong with a file and in which line, for the first few. Reads everything
 * that is intact.
 */
#ifndef SAVED_READER_H
#define SAVED_READER_H

#include "model/event.h"
#include "model/losses.h"
#include "model/trace.h"

/* The result of reading a file. */
struct saved_file {
	const char *path;
	uint64_t bytes, lines, events, bad_lines;
	uint64_t cut_line; /* the line in which the file is cut off; 0: it is not */
	/* Losses found in the file itself; the losses that its end lines report (losses__end()) are
	 * not included. */
	struct losses lost;
};

/* Each may be NULL. */
struct reader_ops {
	/* A trace begins: called before its events, also if it has no header. A value other than 0
	 * stops reading. A daemon's file begins its trace again, after an end. */
	int (*begin)(void *ctx, const char *path, const struct trace_info *info);
	/* Strings are interned: equal texts have the same address. Everything else is valid until
	 * the function returns. */
	void (*event)(void *ctx, const struct trace_event *ev);
	/* A trace whose header is damaged ends without a begin. */
	void (*end)(void *ctx, const struct trace_info *info, const struct trace_end *end);
	/* Called now and then: pos bytes of a file of size bytes were consumed (0: size
	 * unknown). */
	void (*progress)(void *ctx, const char *path, uint64_t pos, uint64_t size);
};

struct reader;

/* Longer lines are skipped. */
#define READER_LINE_MAX (16u << 20)

/* Returns NULL when out of memory. Strings that callbacks received live as long as the reader. */
struct reader *reader__new(const struct reader_ops *ops, void *ctx);
void reader__free(struct reader *r);
/* For callbacks: reading ends soon, with -ECANCELED. */
void reader__stop(struct reader *r);
/* Events come in the order of the lines, not of their ends: for outputs that are copies of it. */
void reader__keep_order(struct reader *r);
/*
 * Reads files ("-" is stdin), and the segments in which their traces continue (util/segment.h).
 * Counts into files, and prints what is wrong with them. Traces of the same time, each in its own
 * file, are read in parallel, at most READER_SIDES of them. Their events and ends are in time
 * order, as far as a shared clock or wall clocks give it. Other traces are read one after the
 * other. Returns 0 when anything could be read, else -errno.
 */
#define READER_SIDES 512
int reader__files(struct reader *r, const char *const *paths, unsigned cnt,
		  struct saved_file *files);
static inline int reader__file(struct reader *r, const char *path, struct saved_file *f)
{
	return reader__files(r, &path, 1, f);
}

#endif /* SAVED_READER_H */
