/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Named values as debug annotations of a track event. A visitor. */
#ifndef SINK_FORMAT_PERFETTO_ARGS_H
#define SINK_FORMAT_PERFETTO_ARGS_H

#include "model/event.h"
#include "perfetto_seq.h"

#define PARGS_DEPTH 20

struct pargs {
	struct visitor v;
	struct pseq *q;
	struct out *scratch;		/* texts of saved events */
	const struct trace_event *call; /* NULL: values of something else */
	uint64_t kernel;
	unsigned told;	/* enum event_has: fields that an argument has repeated */
	bool is_launch; /* whose configuration is known: "launch" says it */
	bool in_args;
	unsigned untold; /* how deep in what is left out */
	unsigned depth;
	struct pargs_level {
		size_t at, empty; /* where its message begins, and how long it is with nothing */
		bool is_array;
	} levels[PARGS_DEPTH];
};

void pargs__init(struct pargs *a, struct pseq *q, struct out *scratch);
/* What a call or a system call means, how it ended, its stack and its arguments, each thing once.
 * kernel: number of its kernel's name among the texts of annotations; 0: it has none. */
void pargs__call(struct pargs *a, const struct trace_event *ev, uint64_t kernel);

#endif /* SINK_FORMAT_PERFETTO_ARGS_H */
