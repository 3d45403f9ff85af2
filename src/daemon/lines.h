/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events as lines of JSON with the labels of their processes: formatted, and compressed, once for
 * files and flight recorder, by threads where there are some. With trace.gpu_time they wait for the
 * times of the GPU before, and the caller does all. And the lines that a file begins and ends with.
 */
#ifndef DAEMON_LINES_H
#define DAEMON_LINES_H

#include <stddef.h>

#include "sink/held_lines.h"
#include "trace/tracer.h"

struct lines;
struct out;

struct words;

/* Some lines, in their order. */
struct lines_text {
	const struct words *words;
	uint64_t now_ns;   /* when the last was given */
	const char *frame; /* all of them (util/zframe.h); NULL: there is none */
	size_t frame_len, len;
	uint64_t lines;
	const struct trace_end *sums; /* of a frame's, by line__count() */
};

/* The one with number *at, which goes on to the next; false: there is none. One of no length is a
 * mark. */
bool lines_text__next(const struct lines_text *t, size_t *at, struct line *l);

struct lines_opts {
	const struct trace_info *info; /* must live as long, its clock must not change */
	size_t wait;		       /* bytes of lines that wait; 0: none does */
	unsigned threads;	       /* besides the caller */
	bool frames;		       /* are wanted where there are many lines */
	/* Each gets all texts in their order, in any thread, and takes what there is from *at on.
	 * false: what is left is only for the caller's thread (is_caller), which does it next. */
	bool (*file)(void *ctx, const struct lines_text *t, size_t *at, bool is_caller);
	void (*record)(void *ctx, const struct lines_text *t);
	void *ctx;
};

/* Before privileges are given up (sink/crew.h). NULL: out of memory, no threads. */
struct lines *lines__new(const struct lines_opts *o);
/* What waits is gone. */
void lines__free(struct lines *l);
/* What so many threads take at most for lines. */
uint64_t lines__most(unsigned threads);
/* more: members that stand at the end; NULL: none. */
void lines__event(struct lines *l, const struct trace_event *ev, const char *more, uint64_t now_ns);
/* What a GPU executed; it has no line itself, but its call may have one. */
void lines__executed(struct lines *l, const struct trace_event *ev);
/* A mark, behind the lines that there are. */
void lines__mark(struct lines *l, uint64_t now_ns);
/* Those that have waited long enough go. */
void lines__tick(struct lines *l, uint64_t now_ns);
/* Until the next event neither file nor record is called: what they use is the caller's. */
void lines__settle(struct lines *l);
/* The same, and all that waits has gone. */
void lines__let_go(struct lines *l);
/* Of lines_opts, when it has settled. */
void lines__set_frames(struct lines *l, bool frames);
/* Executions that have a line, and came when that of their call had gone: ever. */
uint64_t lines__late(const struct lines *l);
void lines__header(const struct lines *l, struct out *o);
void lines__end(const struct lines *l, const struct trace_end *end, struct out *o);

#endif /* DAEMON_LINES_H */
