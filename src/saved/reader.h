/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads saved traces, in one pass: JSONL files, pipes, stdin, packed by gzip or zstd or not. What
 * is wrong with a file is said with its line, a few times; everything that is whole is read.
 */
#ifndef SAVED_READER_H
#define SAVED_READER_H

#include "model/event.h"
#include "model/trace.h"

/* What was read of a file. */
struct saved_file {
	const char *path;
	uint64_t bytes, lines, events, bad_lines;
	uint64_t cut_line; /* the line in which the file breaks off; 0: it does not */
};

/* Any of them may be NULL. */
struct reader_ops {
	/* A trace begins: before its events, also when it has no header. Not 0: read no further. */
	int (*begin)(void *ctx, const struct trace_info *info);
	/* Strings are interned: the same text, the same address. The rest lives until the function
	 * returns. */
	void (*event)(void *ctx, const struct trace_event *ev);
	void (*end)(void *ctx, const struct trace_end *end);
	/* From time to time: of a file of size bytes (0: not known) so many were taken. */
	void (*progress)(void *ctx, const char *path, uint64_t pos, uint64_t size);
};

struct reader;

/* Longer lines are left out. */
#define READER_LINE_MAX (16u << 20)

/* NULL when there is no memory. What the callbacks were given lives as long as the reader. */
struct reader *reader__new(const struct reader_ops *ops, void *ctx);
void reader__free(struct reader *r);
/* Reads a whole file, "-" is stdin, and counts into *f. Says what is wrong with it. Returns 0 when
 * something of it could be read, else -errno. */
int reader__file(struct reader *r, const char *path, struct saved_file *f);
/* That, and the files behind it in which its trace goes on (util/piece.h), but for those from one
 * called next on, which is read by itself; NULL: all of them. *f counts them together. */
int reader__pieces(struct reader *r, const char *path, const char *next, struct saved_file *f);

#endif /* SAVED_READER_H */
