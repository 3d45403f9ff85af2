/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CUDA graphs; for other analyses. */
#ifndef REPORT_KERNELS_GRAPHS_H
#define REPORT_KERNELS_GRAPHS_H

#include "report/report.h"

/* Id of the call that ended the capture of the launched graph; 0: not known. */
uint64_t graphs_capture_of(const struct report *r, const struct trace_event *ev);
/* Number of kernels in the launched graph; 0: none is known. */
uint64_t graphs_kernels_of(const struct report *r, const struct trace_event *ev);

#define GRAPH_NONE UINT32_MAX

/* A call that became a node of a graph. */
struct graph_captured {
	const char *name; /* of a kernel; NULL: not known */
	const char *operator;
	const struct stack *stack;
	uint64_t ns;	  /* of its executions, as far as they are joined */
	uint32_t capture; /* number of the capture, from 0 */
	uint32_t next;	  /* row of the next call of the capture; GRAPH_NONE: none */
	char what;	  /* first letter of the op of its executions; 0: it executes nothing */
};

/* A node that was replayed, or a whole graph, of all its replays. */
struct graph_executed {
	const char *name; /* of a kernel; NULL: not known */
	uint64_t node;	  /* CUPTI's number; 0: a whole graph */
	uint64_t cnt, ns;
	uint32_t capture;  /* number of the capture, from 1; 0: it was captured before the trace */
	uint32_t captured; /* row of its captured call; GRAPH_NONE: it is not joined */
	char what;
};

/* Row of the captured call of this event, the current one; GRAPH_NONE: it is none. */
uint32_t graphs_captured_row(const struct report *r, const struct trace_event *ev);
/* NULL: there is no such row. */
const struct graph_captured *graphs_captured(const struct report *r, uint32_t row);
/* Row of the first call of a capture. */
uint32_t graphs_first_captured(const struct report *r, uint32_t capture);
/* Row of the replayed node that the current event, an execution, is of; GRAPH_NONE: of none. */
uint32_t graphs_executed_row(const struct report *r);
/* Complete after the analysis of graphs has finished. NULL: there is no such row. */
const struct graph_executed *graphs_executed(const struct report *r, uint32_t row);
/* For a whole graph: row of the first captured call of an equal capture whose nodes have times, of
 * *ns in all; GRAPH_NONE: there is none. Its calls are parallel to the graph's own. */
uint32_t graphs_shares_of(const struct report *r, const struct graph_executed *x, uint64_t *ns);

#endif /* REPORT_KERNELS_GRAPHS_H */
