/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Converts the lines of a saved trace (docs/SCHEMA.md) back to events, header and end. */
#ifndef SAVED_SAVED_H
#define SAVED_SAVED_H

#include "model/event.h"
#include "model/trace.h"
#include "parse.h"

enum saved_line {
	SAVED_EVENT,
	SAVED_HEADER,
	SAVED_MORE, /* the header of the next segment of the current trace */
	SAVED_END,
	SAVED_SEGMENT, /* the end of a segment that another one follows */
	SAVED_STACK,   /* a stack that later events refer to; not an event itself */
	SAVED_UNKNOWN, /* a type that this version does not support, written by a newer cudatrace */
};

struct clocks;
struct saved;
struct saved *saved__new(void);
/* Returns one that reads other files of the same set: it shares strings, functions and the time
 * line. */
struct saved *saved__beside(struct saved *other);
void saved__free(struct saved *s);

/*
 * line is the text that p was parsed from. Returns an enum saved_line; -EINVAL: it is not a line of
 * a trace; -EPROTO: it is the header of another schema. *why: the error. The strings of an
 * event live as long as s, and equal texts have the same address. Its text, and what drv points to,
 * are valid until the next line.
 */
int saved__line(struct saved *s, const struct json_value *p, const char *line,
		struct trace_event *ev, const char **why);
/* Returns whether this is the header of a later segment of the current trace. *segment: number of
 * segments before it. */
bool saved__continues(struct saved *s, const struct json_value *p, unsigned *segment);
/* Number of segments of the current trace before the one read last. */
unsigned saved__segment(const struct saved *s);
/* Number of segments missing right before the header read last. */
unsigned saved__skipped(const struct saved *s);
/* The end line read last, without the sums of the files before. */
struct saved_own_end {
	struct trace_end end;
	uint64_t unknown_cnt;	    /* lines of types that this version does not support */
	bool has_events, has_calls; /* members are present */
};
const struct saved_own_end *saved__own_end(const struct saved *s);
/* Returns whether another line, in any file, had the same call of the same run of a tracer. */
bool saved__is_again(struct saved *s, const struct trace_event *ev);
/* Begins a trace without a header: times count from 0. */
int saved__begin(struct saved *s);
/*
 * Places the current trace, which has just begun, on the time line of the first trace. Must be
 * called before its events; does nothing if it was placed already. beside: other traces are being
 * read that are still running when it begins (saved__when()). Otherwise it follows everything read
 * so far: at the time of a clock shared with another trace, or right after them.
 */
void saved__place(struct saved *s, bool beside);
bool saved__is_placed(const struct saved *s);
/* Start time of that trace on the time line of the first: by a shared clock, else by wall clock.
 * UINT64_MAX: unknown. info is as in a header. */
uint64_t saved__when(const struct saved *s, const struct trace_info *info);
/* Compares two traces in the same way, before a first one is placed. */
bool saved__earlier(const struct saved *s, const struct trace_info *a, const struct trace_info *b);
/* Sets the clocks that place traces; they must live as long as s. */
void saved__set_clocks(struct saved *s, const struct clocks *clocks);
/* Reads what saved__when() needs of a header; false: it is not a header. */
bool saved__peek(struct saved *s, const struct json_value *p, struct trace_info *info);
/* Sets the memory limit owner (util/memlimit.h) to the process of this event; ev NULL: to the
 * trace. */
void saved__owner(const struct saved *s, const struct trace_event *ev);
/* Header and end of the current trace; they live as long as s. NULL before a header, or an end. */
const struct trace_info *saved__info(const struct saved *s);
const struct trace_end *saved__end(const struct saved *s);
/* A message about how the current trace was placed; NULL: none. */
const char *saved__note(const struct saved *s);

#endif /* SAVED_SAVED_H */
