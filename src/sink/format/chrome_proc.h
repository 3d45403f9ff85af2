/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the Chrome trace, or Perfetto's, has said already of processes and threads: their names,
 * their memory. */
#ifndef SINK_FORMAT_CHROME_PROC_H
#define SINK_FORMAT_CHROME_PROC_H

#include "model/event.h"

/* Shortest time between two values of a process's memory counters. */
#define CHROME_COUNTER_GAP_NS 100000
/* The time over which ioctls are counted for a value of their rate. */
#define CHROME_RATE_GAP_NS 10000000

struct chrome_procs;

/* What an event makes news of. Names are NULL when nothing changed. */
struct chrome_names {
	const char *process, *thread;
	bool new_process;
	unsigned index; /* of the process, in order of appearance */
};

struct chrome_counter {
	const char *name, *cat, *unit;
	bool is_milli; /* values are in thousandths */
};

typedef void (*chrome_counter_fn)(void *ctx, uint32_t pid, const struct chrome_counter *counter,
				  uint64_t ts_ns, uint64_t value);

struct chrome_procs *chrome_procs__new(void);
void chrome_procs__free(struct chrome_procs *ps);
/* Processes and threads that made room for others, and are named anew. */
uint64_t chrome_procs__forgotten(const struct chrome_procs *ps);
/* false: nothing new. The names live until the next call. */
bool chrome_procs__names(struct chrome_procs *ps, const struct trace_event *ev,
			 struct chrome_names *n);
/* Nothing was said yet: another file begins. */
void chrome_procs__name_anew(struct chrome_procs *ps);
/* Calls fn for the counters that are due. A value of memory that has to wait is written at the end
 * of its gap, unless a newer one took its place. A rate is written at the start of the time that it
 * was counted in, when that time is over. */
void chrome_procs__counters(struct chrome_procs *ps, const struct trace_event *ev,
			    chrome_counter_fn fn, void *ctx);
/* The values that still wait, at the end of the trace. */
void chrome_procs__flush(struct chrome_procs *ps, chrome_counter_fn fn, void *ctx);

#endif /* SINK_FORMAT_CHROME_PROC_H */
