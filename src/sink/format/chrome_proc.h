/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names and counters of processes and threads that a Chrome or Perfetto trace already contains. */
#ifndef SINK_FORMAT_CHROME_PROC_H
#define SINK_FORMAT_CHROME_PROC_H

#include "model/event.h"

/* Shortest time between two values of a process's memory counters. */
#define CHROME_COUNTER_GAP_NS 100000
/* The time over which ioctls are counted for a value of their rate. */
#define CHROME_RATE_GAP_NS 10000000

struct chrome_procs;

/* New names and indices of an event. Names are NULL when unchanged. */
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
/* Processes and threads that were dropped to make space, and are named again. */
uint64_t chrome_procs__forgotten(const struct chrome_procs *ps);
/* false: no change. The names live until the next call. */
bool chrome_procs__names(struct chrome_procs *ps, const struct trace_event *ev,
			 struct chrome_names *n);
/* Another file begins: names must be written again. */
void chrome_procs__name_anew(struct chrome_procs *ps);
/* Calls fn for the counters that are due. A delayed memory value is written at the end of its gap,
 * unless a newer one replaced it. A rate is written when its period is over, with the time of the
 * period's start. */
void chrome_procs__counters(struct chrome_procs *ps, const struct trace_event *ev,
			    chrome_counter_fn fn, void *ctx);
/* Calls fn for values still delayed at the end of the trace. */
void chrome_procs__flush(struct chrome_procs *ps, chrome_counter_fn fn, void *ctx);

#endif /* SINK_FORMAT_CHROME_PROC_H */
