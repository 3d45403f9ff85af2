/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * --start-after and --capture-range: the parts of a trace that are written. The model receives all
 * records, so that names, handles and memory are known when a part begins.
 */
#ifndef TRACE_CAPTURE_RANGE_H
#define TRACE_CAPTURE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct trace_event;

enum capture_kind {
	CAPTURE_NONE,
	CAPTURE_PROFILER, /* from cuProfilerStart to cuProfilerStop, in any process */
	CAPTURE_NVTX,	  /* ranges with this text, in any thread */
};

/* Parts that are known: an execution on a GPU may arrive after later parts have begun. */
#define CAPTURE_PARTS 64

struct capture_range {
	enum capture_kind kind;
	const char *name;  /* CAPTURE_NVTX */
	uint64_t start_ns; /* --start-after; 0: from the start */
	unsigned open_cnt; /* ranges, or processes with pids, that are open */
	uint32_t *pids;	   /* CAPTURE_PROFILER: in which it is on; open_cnt of them */
	unsigned cnt;	   /* parts so far */
	struct {
		uint64_t from_ns, to_ns; /* to_ns: UINT64_MAX while open */
	} parts[CAPTURE_PARTS];		 /* number n at n % CAPTURE_PARTS */
};

/* Call it before capture_range__has(), for each event. */
void capture_range__event(struct capture_range *c, const struct trace_event *ev);
/* An NVTX range begins or ends. text: NULL if it has none. */
void capture_range__nvtx(struct capture_range *c, const char *text, uint64_t ns, bool begins);
/* Returns whether the event belongs to the trace. */
bool capture_range__has(const struct capture_range *c, const struct trace_event *ev);
void capture_range__free(struct capture_range *c);

#endif /* TRACE_CAPTURE_RANGE_H */
