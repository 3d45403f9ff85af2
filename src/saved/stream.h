/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads one trace after another, from one file or from several segments, one item at a time. */
#ifndef SAVED_STREAM_H
#define SAVED_STREAM_H

#include <limits.h>

#include "line_counts.h"
#include "lines.h"
#include "parse.h"
#include "saved.h"
#include "window.h"

/* The current item. */
enum stream_at {
	STREAM_CLOSED, /* nothing was read yet */
	STREAM_TRACE,  /* a trace begins: call saved__place() */
	STREAM_EVENT,
	STREAM_END, /* of a trace */
	STREAM_DONE /* nothing is left */
};

/* A file that was named. */
struct stream_file {
	const char *path;
	struct saved_file *f;
	struct trace_info head; /* the members that saved__peek() reads */
	bool is_left_out;	/* it cannot be read, or is a copy of another */
	uint64_t print;		/* hash of its first two lines; 0: unknown */
	struct lines lines;	/* open for a pipe, which cannot be opened twice */
	struct stream_file *next;
};

struct stream {
	struct lines_all *all;
	struct saved *saved;
	struct parser *parser;
	struct stream_file *files; /* still to be read */

	enum stream_at at;
	struct trace_event ev; /* STREAM_EVENT */
	unsigned side;	       /* reader.c: its slot */
	uint64_t key_ns;       /* sort key: events and ends of several streams are merged by it */

	struct lines lines;    /* the current file */
	struct window *window; /* its lines that were read ahead; NULL: lines are not sorted */
	char *kept;	       /* the line behind those: it has no place among them; NULL: none */
	size_t kept_len;
	bool kept_whole, drains;      /* the window is emptied before another line is read */
	struct saved_file more, *sum; /* counters of the named file, which also count its segments
				       * that were not named */
	char path[PATH_MAX], before[PATH_MAX];
	bool has_end, in_trace;
	struct line_counts counts;
	unsigned skipped; /* missing files before the first, while no end shows whether rotation
			   * removed them */
	uint64_t reported_lost; /* losses reported by `lost` lines and not yet by an end */
	bool goes_on;		/* the trace continues in another file */
	bool must_go_on;	/* this file must be a continuation */
	bool any;		/* anything could be read */
};

/* Reads the first line of a file into f->head. Anything but a disk file stays open. s interns the
 * strings. Returns 0, or -errno after printing the error. */
int stream__peek(struct lines_all *all, struct saved *s, struct parser *p, struct stream_file *f);
/* Reads the next item: st->at. The previous item becomes invalid. After STREAM_TRACE the caller
 * must have placed the trace. */
void stream__next(struct stream *st);
/* Frees what it holds; saved and parser belong to the caller. */
void stream__close(struct stream *st);

#endif /* SAVED_STREAM_H */
