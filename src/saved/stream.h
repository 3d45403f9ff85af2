/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One trace after another, of one file or of those that a trace goes on in: one thing at a time. */
#ifndef SAVED_STREAM_H
#define SAVED_STREAM_H

#include <limits.h>

#include "lines.h"
#include "parse.h"
#include "saved.h"

/* What is at hand. */
enum stream_at {
	STREAM_CLOSED, /* nothing was read yet */
	STREAM_TRACE,  /* a trace begins: saved__place() */
	STREAM_EVENT,
	STREAM_END, /* of a trace */
	STREAM_DONE /* there is no more */
};

/* A file that was named. */
struct stream_file {
	const char *path;
	struct saved_file *f;
	struct trace_info head; /* as far as saved__peek() reads it */
	bool is_left_out;	/* it cannot be read, or is a copy of another */
	uint64_t print;		/* of its first two lines; 0: they are not known */
	struct lines lines;	/* is open: of a pipe, which cannot be opened twice */
	struct stream_file *next;
};

struct stream {
	struct lines_all *all;
	struct saved *saved;
	struct parser *parser;
	struct stream_file *files; /* to be read */

	enum stream_at at;
	struct trace_event ev; /* STREAM_EVENT */
	uint64_t key_ns;       /* events and ends of several streams come in the order of this */

	struct lines lines; /* the file at hand */
	struct saved_file more,
		*sum; /* of a file that nobody named: it counts with the one before */
	char path[PATH_MAX], before[PATH_MAX];
	uint64_t last_ns;
	bool has_end, in_trace;
	uint64_t line_cnt; /* since the header: what the end counts, and what it cannot */
	uint64_t strange_cnt, again_cnt; /* of those: no events, and calls that were there before */
	unsigned skipped; /* files before the first, while no end says whether rotation removed them
			   */
	uint64_t told_lost; /* by `lost` lines, while no end has counted it */
	bool goes_on;	    /* the trace does, in another file */
	bool must_go_on;    /* the file is read as such a one */
	bool any;	    /* something could be read */
};

/* Looks at the first line of a file: f->head. What is no file of the disk stays open.
 * s gives strings their addresses. 0 or -errno: it cannot be read, which is said. */
int stream__peek(struct lines_all *all, struct saved *s, struct parser *p, struct stream_file *f);
/* The next thing: st->at. What was at hand is gone. After STREAM_TRACE its trace has its place. */
void stream__next(struct stream *st);
/* Gives back what it holds; saved and parser are the caller's. */
void stream__close(struct stream *st);

#endif /* SAVED_STREAM_H */
