/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The lines of one file, and what is said of it with their numbers. */
#ifndef SAVED_LINES_H
#define SAVED_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader.h"

/* Of all files that are open: beyond it a line is left out as too long. */
#define LINES_BYTES_MAX (64u << 20)

/* What all files of a reader share. */
struct lines_all {
	const struct reader_ops *ops;
	void *ctx;
	size_t bytes; /* in buffers */
	bool many;    /* there are several: none of them may take much memory */
};

struct lines {
	struct lines_all *all;
	const char *path;
	struct saved_file *file;
	struct input *in;
	char *buf; /* cap bytes, then PARSE_SLACK */
	size_t pos, len, cap;
	char *line; /* the last */
	size_t line_len;
	bool line_whole, again, looked_at;
	uint64_t shown; /* progress */
	unsigned message_cnt, note_cnt;
	uint64_t unknown_cnt, backwards_cnt, doubled_cnt;
	int error;	  /* the rest of the file is not read */
	const char *held; /* why what follows cannot be read, found while looking ahead; or NULL */
};

/* Counts into *f, from 0. Says what is wrong: 0 or -errno. l is not open before. */
int lines__open(struct lines *l, struct lines_all *all, const char *path, struct saved_file *f);
/* What is open is closed; nothing for what is all zero. */
void lines__close(struct lines *l);
/* The next line, its newline made a NUL. *whole: it had one. NULL: there are no more. */
char *lines__next(struct lines *l, size_t *len, bool *whole);
/* The next line is the last one once more. */
void lines__again(struct lines *l);
const char *lines__name(const struct lines *l);
/* With the place, a few times. */
void __attribute__((format(printf, 2, 3))) lines__complain(struct lines *l, const char *fmt, ...);
/* The same of what is not wrong. */
void lines__note(struct lines *l, const char *text);
/* At the end: how many more there were. */
void lines__sum_up(const struct lines *l);

#endif /* SAVED_LINES_H */
