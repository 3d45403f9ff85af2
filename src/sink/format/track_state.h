/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an event brings to a picture of the trace, Chrome's or Perfetto's, beside its slice or
 * instant: names of its process and thread, arrows, values of counters. Found once, so that the
 * event can be written again in another file.
 */
#ifndef SINK_FORMAT_TRACK_STATE_H
#define SINK_FORMAT_TRACK_STATE_H

#include "allocator_counters.h"
#include "chrome_flow.h"
#include "chrome_proc.h"
#include "gpu_counters.h"

#define TRACK_NAME_SZ 32 /* threads have 16, rows of GPUs more */

struct track_counter {
	uint32_t pid;
	const struct chrome_counter *counter;
	uint64_t ts_ns, value;
};

struct track_state {
	struct flows *flows;
	struct chrome_procs *procs;
	struct gpu_counters *gpus;
	struct allocator_counters *allocator;
	uint64_t seq_before; /* launches before the event */
	uint64_t seq_files;  /* launches in files that are ended: no arrow begins there */
	/* Of the event at hand. Names are "" when they are no news. */
	bool new_process;
	unsigned index; /* of the process, in order of appearance */
	char process[TRACK_NAME_SZ], thread[TRACK_NAME_SZ];
	struct flow_launch *arrows; /* where they begin; they end at the event */
	unsigned arrow_cnt, arrow_cap;
	struct track_counter *counters;
	unsigned counter_cnt, counter_cap;
	bool ended;
};

/* -ENOMEM or 0; track_state__free() either way. */
int track_state__init(struct track_state *b);
void track_state__free(struct track_state *b);
void track_state__event(struct track_state *b, const struct trace_event *ev);
/* Another file begins. */
void track_state__next_file(struct track_state *b);
/* The same event, as the first of that file. */
void track_state__again(struct track_state *b, const struct trace_event *ev);
/* Values of counters that still wait, at the end of the trace; the same when asked again. */
void track_state__rest(struct track_state *b);
/* What made room for others: names come twice, arrows may be missing. */
uint64_t track_state__forgotten(const struct track_state *b);

#endif /* SINK_FORMAT_TRACK_STATE_H */
