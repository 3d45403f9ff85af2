/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sorts the lines of a trace: analyses need calls in the order of their ends, and GPU lines after
 * their calls. A tracer writes lines in nearly that order, and other programs may sort them in
 * another way. The window holds the lines that were read ahead and returns the first of them in an
 * order that does not depend on the order in which they arrived.
 */
#ifndef SAVED_WINDOW_H
#define SAVED_WINDOW_H

#include "parse.h"

/* Bytes of lines in a window: of the only file, and of each of several. */
#define WINDOW_BYTES_ONE  (32u << 20)
#define WINDOW_BYTES_MANY (4u << 20)
/* Of all together, if there are more. */
#define WINDOW_BYTES_ALL (128u << 20)
#define WINDOW_BYTES_MIN (64u << 10)

struct window;

struct window_line {
	uint64_t number; /* in its file */
	size_t len;
	char *text; /* followed by PARSE_SLACK bytes */
};

/* Returns NULL when out of memory. */
struct window *window__new(size_t bytes_max);
void window__free(struct window *w);
/* Begins another trace: the window must be empty. */
void window__begin(struct window *w);

enum window_added {
	WINDOW_ADDED,
	WINDOW_BORDER,	 /* a header or an end: it comes after all lines of the window */
	WINDOW_NO_PLACE, /* it has no time */
	WINDOW_NO_MEMORY,
};

/* Copies a line, which p was parsed from. */
enum window_added window__add(struct window *w, const struct json_value *p, const char *line,
			      size_t len, uint64_t number);
/* Returns whether a line must be taken before the next one is added. */
bool window__is_full(const struct window *w);
bool window__is_empty(const struct window *w);
/* Returns the first line, or NULL. It is valid until the next call. *late_ns: how much earlier it
 * belongs than a line that was taken before; 0 if it is in order. */
const struct window_line *window__take(struct window *w, uint64_t *late_ns);

#endif /* SAVED_WINDOW_H */
