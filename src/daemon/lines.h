/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events as lines of JSON with the labels of their processes: formatted once for files and flight
 * recorder. And the lines that a file begins and ends with. */
#ifndef DAEMON_LINES_H
#define DAEMON_LINES_H

#include <stddef.h>

#include "trace/tracer.h"

struct lines;
struct out;

/* info must live as long, its clock must not change. NULL: out of memory. */
struct lines *lines__new(const struct trace_info *info);
void lines__free(struct lines *l);
/* suffix: members that stand at the end. Valid until the next event. */
const char *lines__event(struct lines *l, const struct trace_event *ev, const char *suffix,
			 size_t suffix_len, size_t *len);
void lines__header(const struct lines *l, struct out *o);
void lines__end(const struct lines *l, const struct trace_end *end, struct out *o);

#endif /* DAEMON_LINES_H */
