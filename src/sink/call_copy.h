/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A call's event with what it points to, as far as JSON shows it, in one piece of memory. */
#ifndef SINK_CALL_COPY_H
#define SINK_CALL_COPY_H

#include "model/event.h"

/* Names that copies beside each other have already: of kernels and threads there are few, and each
 * call has some. */
#define COPIED_NAMES_LOG 6
struct copied_name {
	const char *from, *copy; /* NULL: none; that pointer may have another text by now */
};
struct copied_names {
	struct copied_name of[1 << COPIED_NAMES_LOG];
};

/* A string that an event points to. */
struct copied_text {
	const char *s;
	const char *copy; /* NULL: not yet */
	size_t size;	  /* that it takes */
};

struct call_copy {
	const struct trace_event *ev;
	size_t event, words, caps, stack;
	struct copied_text comm, kernel, mangled, range, operator;
};

/* Bytes that it takes, a multiple of eight; while names are as they are. */
size_t call_copy__size(struct call_copy *c, const struct copied_names *names,
		       const struct trace_event *ev);
/* to has that many. */
struct trace_event *call_copy__put(const struct call_copy *c, struct copied_names *names, void *to);

#endif /* SINK_CALL_COPY_H */
