/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The summary at the end of a trace, similar to strace -c: counted as events pass, in memory that
 * does not grow with the trace.
 */
#ifndef SINK_SUMMARY_SUMMARY_H
#define SINK_SUMMARY_SUMMARY_H

#include <stdio.h>

#include "model/event.h"
#include "model/trace.h"

struct out;
struct summary;

/* Running totals, for a progress line. */
struct summary_totals {
	uint64_t event_cnt, call_cnt, launch_cnt, graph_launch_cnt, error_cnt;
	uint64_t device_bytes, device_peak; /* live memory, of all processes */
	bool no_bytes;			    /* sizes are redacted */
};

/* NULL when there is no memory. */
struct summary *summary__new(void);
void summary__free(struct summary *s);
/* ev->fn is kept: it must live as long as the summary. */
void summary__event(struct summary *s, const struct trace_event *ev);
void summary__totals(const struct summary *s, struct summary_totals *t);

/* An output of the trace. */
struct summary_file {
	const char *sink, *path; /* as in sinks.def; "-" is stdout */
	uint64_t bytes;		 /* 0: not known */
	unsigned more_cnt;	 /* further files (--max-file) */
};

/* Maximum number of lines of the short summary. */
#define SUMMARY_LINES_MAX 25

/* Prints at most SUMMARY_LINES_MAX lines of at most width columns, from 72 columns on; only paths
 * may be longer. Losses come first. */
void summary__print_short(struct summary *s, FILE *f, const struct trace_info *info,
			  const struct trace_end *end, const struct summary_file *files,
			  unsigned file_cnt, int width, bool color);
/* Prints all tables: lines of at most width columns. Losses come first. */
void summary__print(struct summary *s, FILE *f, const struct trace_info *info,
		    const struct trace_end *end, int width, bool color);
/* Writes one JSON object on one line: complete, except for long tables. */
void summary__json(struct summary *s, struct out *out, const struct trace_info *info,
		   const struct trace_end *end);

#endif /* SINK_SUMMARY_SUMMARY_H */
