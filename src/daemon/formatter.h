/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events as lines of JSON with the labels of their processes: formatted, and compressed, once for
 * files and flight recorder, by threads where there are some. With trace.gpu_time they wait for the
 * times of the GPU before, and the caller does all. And the lines that a file begins and ends with.
 */
#ifndef DAEMON_FORMATTER_H
#define DAEMON_FORMATTER_H

#include <stddef.h>

#include "sink/delivery/pending_lines.h"
#include "trace/tracer.h"

struct formatter;
struct out;

struct format_sink;

/* Some lines, in their order. */
struct formatter_text {
	const struct format_sink *formatter;
	uint64_t now_ns;   /* when the last was given */
	const char *frame; /* all of them (util/zframe.h); NULL: there is none */
	size_t frame_len, len;
	uint64_t lines;
	const struct trace_end *sums; /* of a frame's, by line__count() */
};

/* The one with number *at, which goes on to the next; false: there is none. One of no length is a
 * mark. */
bool formatter_text__next(const struct formatter_text *t, size_t *at, struct line *l);

struct formatter_opts {
	const struct trace_info *info; /* must live as long, its clock must not change */
	size_t wait;		       /* bytes of lines that wait; 0: none does */
	unsigned threads;	       /* besides the caller */
	bool frames;		       /* are wanted where there are many lines */
	/* Each gets all texts in their order, in any thread, and takes what there is from *at on.
	 * false: what is left is only for the caller's thread (is_caller), which does it next. */
	bool (*file)(void *ctx, const struct formatter_text *t, size_t *at, bool is_caller);
	void (*record)(void *ctx, const struct formatter_text *t);
	void *ctx;
};

/* Before privileges are given up (sink/delivery/workers.h). NULL: out of memory, no threads. */
struct formatter *formatter__new(const struct formatter_opts *o);
/* What waits is gone. */
void formatter__free(struct formatter *l);
/* What so many threads take at most for lines. */
uint64_t formatter__most(unsigned threads);
/* more: members that stand at the end; NULL: none. */
void formatter__event(struct formatter *l, const struct trace_event *ev, const char *more,
		      uint64_t now_ns);
/* What a GPU executed; it has no line itself, but its call may have one. */
void formatter__executed(struct formatter *l, const struct trace_event *ev);
/* A mark, behind the lines that there are. */
void formatter__mark(struct formatter *l, uint64_t now_ns);
/* Those that have waited long enough go. */
void formatter__tick(struct formatter *l, uint64_t now_ns);
/* Until the next event neither file nor record is called: what they use is the caller's. */
void formatter__wait_idle(struct formatter *l);
/* The same, and all that waits has gone. */
void lines__release(struct formatter *l);
/* Of formatter_opts, when it has settled. */
void formatter__set_frames(struct formatter *l, bool frames);
/* Executions that have a line, and came when that of their call had gone: ever. */
uint64_t formatter__late(const struct formatter *l);
void formatter__header(const struct formatter *l, struct out *o);
void formatter__end(const struct formatter *l, const struct trace_end *end, struct out *o);

#endif /* DAEMON_FORMATTER_H */
