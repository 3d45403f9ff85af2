/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Additions of an event to a timeline, Chrome's or Perfetto's, beside its slice or instant: names
 * of its process and thread, arrows, values of counters. Computed once, so that the event can be
 * written again in another file.
 */
#ifndef SINK_FORMAT_TRACK_STATE_H
#define SINK_FORMAT_TRACK_STATE_H

#include "allocator_counters.h"
#include "chrome_flow.h"
#include "chrome_proc.h"
#include "gpu_counters.h"

#define TRACK_NAME_SZ 32 /* threads have 16, GPU rows need more */

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
	uint64_t seq_files;  /* launches in finished files: no arrow begins there */
	/* The following members belong to the current event. Names are "" when unchanged. */
	bool new_process;
	unsigned index; /* of the process, in order of appearance */
	char process[TRACK_NAME_SZ], thread[TRACK_NAME_SZ];
	struct flow_launch *arrows; /* starts of arrows; they end at the event */
	unsigned arrow_cnt, arrow_cap;
	struct track_counter *counters;
	unsigned counter_cnt, counter_cap;
	bool ended;
};

/* 0 or -ENOMEM; call track_state__free() in both cases. */
int track_state__init(struct track_state *b);
void track_state__free(struct track_state *b);
void track_state__event(struct track_state *b, const struct trace_event *ev);
/* Another file begins. */
void track_state__next_file(struct track_state *b);
/* Handles the last event again, as the first of the next file. */
void track_state__again(struct track_state *b, const struct trace_event *ev);
/* Values of counters still delayed at the end of the trace; repeatable. */
void track_state__rest(struct track_state *b);
/* Entries dropped to make space: names may be repeated, arrows may be missing. */
uint64_t track_state__forgotten(const struct track_state *b);

#endif /* SINK_FORMAT_TRACK_STATE_H */
