/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From the lines of a saved trace (docs/SCHEMA.md) to what they were made from: events, the header,
 * the end. */
#ifndef SAVED_SAVED_H
#define SAVED_SAVED_H

#include "model/event.h"
#include "model/trace.h"
#include "parse.h"

enum saved_line {
	SAVED_EVENT,
	SAVED_HEADER,
	SAVED_MORE, /* the header of the next file of the trace at hand, which is split */
	SAVED_END,
	SAVED_SEGMENT, /* the end of a file that another follows */
	SAVED_STACK,   /* a stack that events behind it have: no event of its own */
	SAVED_UNKNOWN, /* a type that this program does not know: of a newer cudatrace */
};

struct saved;
struct saved *saved__new(void);
/* One that reads other files as part of the same: strings have one address, functions are one, and
 * traces have one time. */
struct saved *saved__beside(struct saved *other);
void saved__free(struct saved *s);

/*
 * line is what p was made from. Returns enum saved_line, or -EINVAL when it is no line of a trace,
 * -EPROTO when it is the header of another schema; *why says what is wrong then. An event's
 * strings live as long as s and the same text has the same address; its text and what drv points
 * to live until the next line.
 */
int saved__line(struct saved *s, const struct json_value *p, const char *line,
		struct trace_event *ev, const char **why);
/* Is that the header of a file that follows the trace at hand? *piece: how many come before it. */
bool saved__continues(struct saved *s, const struct json_value *p, unsigned *segment);
/* Of the trace at hand so many files come before the one that was read last. */
unsigned saved__segment(const struct saved *s);
/* So many files of the trace are missing right before the header that was read last. */
unsigned saved__skipped(const struct saved *s);
/* So many lines, stacks too, are in the file by the end that was read last; 0: it does not say. */
uint64_t saved__end_lines(const struct saved *s);
/* And no others; false: they may be more. */
bool saved__end_is_exact(const struct saved *s);
/* Was the call given before, by another line of the same run of a tracer, in any file? */
bool saved__is_again(struct saved *s, const struct trace_event *ev);
/* For a trace without a header: times count from 0. */
int saved__begin(struct saved *s);
/*
 * Where the trace at hand, which has just begun, lies in the time of the first: before its events.
 * beside: others are being read that go on when it begins (saved__when()). Else it comes after all
 * that was read: where its clock says when that is one of theirs, right behind them when not.
 * Nothing when it has its place.
 */
void saved__place(struct saved *s, bool beside);
bool saved__is_placed(const struct saved *s);
/* When that trace began in the time of the first: by a clock that is known, else by wall time.
 * UINT64_MAX: it is not known. info is as a header has it. */
uint64_t saved__when(const struct saved *s, const struct trace_info *info);
/* The same of two, before there is a first. */
bool saved__earlier(const struct trace_info *a, const struct trace_info *b);
/* What saved__when() needs of a header; false: it is none. */
bool saved__peek(struct saved *s, const struct json_value *p, struct trace_info *info);
/* Whose it is what is kept while this event is looked at, or, NULL, what is said of a trace:
 * util/memlimit.h. */
void saved__owner(const struct saved *s, const struct trace_event *ev);
/* Of the trace at hand; they live as long as s. NULL before a header, and before an end. */
const struct trace_info *saved__info(const struct saved *s);
const struct trace_end *saved__end(const struct saved *s);
/* What has to be said of the place in time of the trace at hand; NULL: nothing. */
const char *saved__note(const struct saved *s);

#endif /* SAVED_SAVED_H */
