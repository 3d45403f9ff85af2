/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Named values as debug annotations of a track event, written by a visitor. */
#ifndef SINK_FORMAT_PERFETTO_ARGS_H
#define SINK_FORMAT_PERFETTO_ARGS_H

#include "model/event.h"
#include "perfetto_seq.h"

#define PARGS_DEPTH 20

struct pargs {
	struct visitor v;
	struct pseq *q;
	struct out *scratch;		/* for texts of saved events */
	const struct trace_event *call; /* NULL: values of another object */
	uint64_t kernel;
	unsigned repeated; /* enum event_has: fields that an argument has repeated */
	bool is_launch;	   /* its configuration is known: "launch" contains it */
	bool in_args;
	unsigned unrepeated; /* depth within omitted values */
	unsigned depth;
	struct pargs_level {
		size_t at, empty; /* start of its message, and the message's length when empty */
		bool is_array;
	} levels[PARGS_DEPTH];
};

void pargs__init(struct pargs *a, struct pseq *q, struct out *scratch);
/* Writes a call's or system call's meaning, its result, its stack and its arguments, each once.
 * kernel: number of its kernel's name among the texts of annotations; 0: none. */
void pargs__call(struct pargs *a, const struct trace_event *ev, uint64_t kernel);

#endif /* SINK_FORMAT_PERFETTO_ARGS_H */
