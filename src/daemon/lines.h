/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events as lines of JSON with the labels of their processes: formatted once for files and flight
 * recorder. With trace.gpu_time they wait for the times of the GPU before. And the lines that a
 * file begins and ends with. */
#ifndef DAEMON_LINES_H
#define DAEMON_LINES_H

#include <stddef.h>

#include "sink/held_lines.h"
#include "trace/tracer.h"

struct lines;
struct out;

/* info must live as long, its clock must not change. wait: bytes of lines that wait; 0: none does.
 * fn: gets each when it has waited. NULL: out of memory. */
struct lines *lines__new(const struct trace_info *info, size_t wait, held_lines_fn fn, void *ctx);
/* What waits is gone. */
void lines__free(struct lines *l);
/* suffix: members that stand at the end. */
void lines__event(struct lines *l, const struct trace_event *ev, const char *suffix,
		  size_t suffix_len, uint64_t now_ns);
/* What a GPU executed; it has no line itself, but its call may have one. */
void lines__executed(struct lines *l, const struct trace_event *ev);
/* fn gets an empty line, behind those that there are. */
void lines__mark(struct lines *l, uint64_t now_ns);
/* Those that have waited long enough go. */
void lines__tick(struct lines *l, uint64_t now_ns);
/* All go. */
void lines__let_go(struct lines *l);
/* Executions that have a line, and came when that of their call had gone: ever. */
uint64_t lines__late(const struct lines *l);
void lines__header(const struct lines *l, struct out *o);
void lines__end(const struct lines *l, const struct trace_end *end, struct out *o);

#endif /* DAEMON_LINES_H */
