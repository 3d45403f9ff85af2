/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lines of one file, and messages about them with line numbers. */
#ifndef SAVED_LINES_H
#define SAVED_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader.h"

/* Total buffer size of all open files: a line that would exceed it is skipped as too long. */
#define LINES_BYTES_MAX (64u << 20)

/* Shared by all files of a reader. */
struct lines_all {
	const struct reader_ops *ops;
	void *ctx;
	size_t bytes;	    /* size of all buffers */
	bool many;	    /* several files are read: each may use only little memory */
	unsigned file_cnt;  /* number of them */
	bool in_file_order; /* lines are not sorted */
};

struct lines {
	struct lines_all *all;
	const char *path;
	struct saved_file *file;
	struct input *in;
	char *buf; /* cap bytes, followed by PARSE_SLACK */
	size_t pos, len, cap;
	char *line;	 /* the line returned last */
	uint64_t number; /* of the line that messages are about */
	size_t line_len;
	bool line_whole, again, looked_at, is_quiet;
	uint64_t shown;	  /* position of the last progress report */
	uint64_t skipped; /* bytes of too long lines */
	unsigned message_cnt, note_cnt;
	uint64_t unknown_cnt, backwards_cnt, doubled_cnt;
	int error;	  /* the rest of the file is not read */
	const char *held; /* an error found while reading ahead, reported when it is reached; or
			   * NULL */
};

/* Opens a file; l must not be open. Counts into *f, starting from 0. Prints what failed. Returns 0
 * or -errno. */
int lines__open(struct lines *l, struct lines_all *all, const char *path, struct saved_file *f);
/* Closes an open file. Does nothing for a zeroed struct. */
void lines__close(struct lines *l);
/* Returns the next line, whose newline is replaced by a NUL, or NULL at the end. *whole: it ended
 * with a newline. */
char *lines__next(struct lines *l, size_t *len, bool *whole);
/* lines__next() returns the last line again. */
void lines__again(struct lines *l);
const char *lines__name(const struct lines *l);
/* Prints a warning with file and line number, for the first few per file. */
void __attribute__((format(printf, 2, 3))) lines__complain(struct lines *l, const char *fmt, ...);
/* Prints an information message with file and line number. */
void lines__note(struct lines *l, const char *text);
/* Prints no more messages: the file is read twice. */
void lines__be_quiet(struct lines *l);
/* At the end of the file: prints how many further messages there were. */
void lines__sum_up(const struct lines *l);

#endif /* SAVED_LINES_H */
