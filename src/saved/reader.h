/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads saved traces, in one pass: JSONL files, pipes, stdin, packed by gzip or zstd or not. What
 * is wrong with a file is said with its line, a few times; everything that is whole is read.
 */
#ifndef SAVED_READER_H
#define SAVED_READER_H

#include "model/event.h"
#include "model/losses.h"
#include "model/trace.h"

/* What was read of a file. */
struct saved_file {
	const char *path;
	uint64_t bytes, lines, events, bad_lines;
	uint64_t cut_line; /* the line in which the file breaks off; 0: it does not */
	/* What is missing, by the file: losses__end() of its ends is no part of it. */
	struct losses lost;
};

/* Any of them may be NULL. */
struct reader_ops {
	/* A trace begins: before its events, also when it has no header. Not 0: read no further.
	 * Files of the daemon begin their trace once more, after an end. */
	int (*begin)(void *ctx, const char *path, const struct trace_info *info);
	/* Strings are interned: the same text, the same address. The rest lives until the function
	 * returns. */
	void (*event)(void *ctx, const struct trace_event *ev);
	/* A trace whose header is damaged ends without a begin. */
	void (*end)(void *ctx, const struct trace_info *info, const struct trace_end *end);
	/* From time to time: of a file of size bytes (0: not known) so many were taken. */
	void (*progress)(void *ctx, const char *path, uint64_t pos, uint64_t size);
};

struct reader;

/* Longer lines are left out. */
#define READER_LINE_MAX (16u << 20)

/* NULL when there is no memory. What the callbacks were given lives as long as the reader. */
struct reader *reader__new(const struct reader_ops *ops, void *ctx);
void reader__free(struct reader *r);
/*
 * Reads files, "-" is stdin, and those in which their traces go on (util/segment.h); counts into
 * files, and says what is wrong with them. Traces of the same time, each in a file of its own, are
 * read side by side, at most READER_SIDES of them: events and ends in the order of time, as far as
 * the clock that they share or wall clocks say it; other traces one after the other. Returns 0
 * when something could be read, else -errno.
 */
#define READER_SIDES 32
int reader__files(struct reader *r, const char *const *paths, unsigned cnt,
		  struct saved_file *files);
static inline int reader__file(struct reader *r, const char *path, struct saved_file *f)
{
	return reader__files(r, &path, 1, f);
}

#endif /* SAVED_READER_H */
