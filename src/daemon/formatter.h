/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Formats events as JSON lines with the labels of their processes. Lines are formatted and
 * compressed once for files and flight recorder, by worker threads if configured. With
 * trace.gpu_time lines first wait for the GPU's times, and the caller formats all. Also makes the
 * first and last lines of a file. */
#ifndef DAEMON_FORMATTER_H
#define DAEMON_FORMATTER_H

#include <stddef.h>

#include "sink/delivery/pending_lines.h"
#include "trace/tracer.h"

struct formatter;
struct out;

struct format_sink;

/* Some lines, in order. */
struct formatter_text {
	const struct format_sink *formatter;
	uint64_t now_ns;   /* time of the last one */
	const char *frame; /* all lines compressed (util/zframe.h); NULL: none */
	size_t frame_len, len;
	uint64_t lines;
	const struct trace_end *sums; /* sums over a frame, by line__count() */
};

/* Returns line number *at and advances *at; false: there is none. A line of length 0 is a mark. */
bool formatter_text__next(const struct formatter_text *t, size_t *at, struct line *l);

struct formatter_opts {
	const struct trace_info *info; /* must live as long as the formatter; its clock must not
					* change */
	size_t wait;		       /* bytes of pending lines; 0: lines do not wait */
	unsigned threads;	       /* in addition to the caller */
	bool frames;		       /* make frames where there are many lines */
	/* Gets all texts in order, in any thread, and consumes them from *at on. false: the rest
	 * must be consumed in the caller's thread (is_caller), which is called next. */
	bool (*file)(void *ctx, const struct formatter_text *t, size_t *at, bool is_caller);
	void (*record)(void *ctx, const struct formatter_text *t);
	void *ctx;
};

/* Call this before privileges are dropped (sink/delivery/workers.h). NULL: out of memory or no
 * threads. */
struct formatter *formatter__new(const struct formatter_opts *o);
/* Drops pending lines. */
void formatter__free(struct formatter *l);
/* The maximum memory that this number of threads uses for lines. */
uint64_t formatter__max_bytes(unsigned threads);
/* more: members appended to the line; NULL: none. */
void formatter__event(struct formatter *l, const struct trace_event *ev, const char *more,
		      uint64_t now_ns);
/* Takes a GPU execution; it has no line itself, but its call may have one. */
void formatter__executed(struct formatter *l, const struct trace_event *ev);
/* Puts a mark after the lines so far. */
void formatter__mark(struct formatter *l, uint64_t now_ns);
/* Writes lines that have waited long enough. */
void formatter__tick(struct formatter *l, uint64_t now_ns);
/* Until the next event neither file nor record is called, so the caller may use their data. */
void formatter__wait_idle(struct formatter *l);
/* As formatter__wait_idle(), after all pending lines were written. */
void formatter__release(struct formatter *l);
/* Changes formatter_opts.frames while the formatter is idle. */
void formatter__set_frames(struct formatter *l, bool frames);
/* Total number of executions whose call's line had been written before they arrived. */
uint64_t formatter__late(const struct formatter *l);
/* Appends the line of an event that goes to no file, and counts it for the end. */
void formatter__line(const struct formatter *l, const struct trace_event *ev, const char *more,
		     struct trace_end *end, struct out *o);
void formatter__header(const struct formatter *l, struct out *o);
void formatter__end(const struct formatter *l, const struct trace_end *end, struct out *o);

#endif /* DAEMON_FORMATTER_H */
