/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Graphs, their instances and captures: the state of graphs.c and graphs_*.c. */
#ifndef REPORT_KERNELS_GRAPHS_PRIV_H
#define REPORT_KERNELS_GRAPHS_PRIV_H

#include "report/collect.h"
#include "graphs.h"
#include "model/capture.h"
#include "util/hash_table.h"

#define GRAPHS_LIST 1000

enum node_kind { NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET, NODE_OTHER, NODE_KIND_CNT };
enum graph_how { GRAPH_UNKNOWN, GRAPH_CAPTURED, GRAPH_BUILT, GRAPH_CLONED };

struct nodes {
	uint64_t n[NODE_KIND_CNT];
	bool unknown; /* there are other nodes, or some may not run */
};

struct graph {
	uint64_t handle;
	uint32_t pid;
	enum graph_how how;
	bool seen; /* it was made, or its capture began, within the trace */
	struct nodes nodes;
	uint64_t capture_id; /* call that ended its capture; 0: not known */
	uint32_t capture;    /* as open_capture */
};

struct exec {
	uint64_t handle, graph;
	uint32_t pid;
	enum graph_how how;
	struct nodes nodes;
	uint64_t launches, launch_ns, instantiate_ns, updates, first_ns;
	uint64_t capture_id; /* of its graph */
	uint32_t capture;
	bool destroyed;
};

/* An open capture. */
struct open_capture {
	uint64_t id; /* of the call that began it */
	struct capture_stream origin;
	uint64_t graph; /* that it adds to; 0: it makes a new one */
	struct nodes nodes;
	uint32_t capture; /* number in graph_nodes.captures, from 1; 0: none */
};

struct graph_proc {
	struct hash_link link;
	uint32_t pid;
	struct open_capture *caps;
	unsigned cnt, cap;
};
HASH_TABLE(graph_proc, pid);

struct graph_capture {
	uint64_t signature;	   /* hash of its calls */
	uint64_t ns;		   /* of the nodes that are joined */
	uint32_t first, last, cnt; /* rows of graph_nodes.captured */
	uint32_t like;		   /* equal capture with times of nodes; GRAPH_NONE: none */
	bool is_cut;		   /* a call is missing */
};

/* A launch of a graph. */
struct graph_replay {
	uint64_t key;
	uint32_t capture; /* as open_capture */
	bool is_before;	  /* the graph was not made within the trace */
};

/* graphs_nodes.c */
struct graph_nodes {
	struct graph_capture *captures;
	struct graph_captured *captured;
	struct graph_executed *executed;
	struct graph_replay *replays;
	struct keys executed_keys;
	uint32_t capture_cnt, captured_cnt;
	unsigned capture_cap, captured_cap, executed_cap;
	uint64_t latest;  /* key of the call of the latest row of captured */
	uint32_t current; /* row of executed of the current execution */
	uint64_t joined_cnt, refused_cnt, before_cnt; /* executions */
};

/* Live items by handle and process. */
struct live_set {
	struct keys keys;
	void **items;
	unsigned cap;
};

struct graphs {
	struct report *r;
	uint64_t captures, capture_failures, built, clones, instantiations, updates, destroyed;
	uint64_t launches, launch_ns, kernels_run;
	bool kernels_unknown;
	struct graph_proc_table procs;
	unsigned capturing_cnt; /* open captures */
	struct live_set graphs, execs;
	struct keys node_keys; /* of built graphs */
	struct graph_node {
		uint64_t graph;
		enum node_kind kind;
	} * nodes;
	unsigned node_cap;
	struct exec list[GRAPHS_LIST]; /* destroyed ones; after the finish, most launches first */
	unsigned list_cnt;
	uint64_t rejected;
	struct graph_nodes joined;
};

/* Assigns a number to the capture, if there is room. */
void graph_nodes_begin(struct graph_nodes *n, struct open_capture *c);
void graph_nodes_add(struct graph_nodes *n, const struct open_capture *c,
		     const struct trace_event *ev);
void graph_nodes_launch(struct graph_nodes *n, const struct trace_event *ev, const struct exec *x);
void graph_nodes_execution(struct graph_nodes *n, const struct trace_event *ev);
/* After the last event. */
void graph_nodes_join(struct graph_nodes *n);
void graph_nodes_free(struct graph_nodes *n);

/* Counts nodes that a call on a capturing stream adds. */
void graphs_capture_event(struct graphs *g, const struct trace_event *ev);
void graphs_capture_forget(struct graphs *g, uint32_t pid);
/* Moves the capture that the call ends to *to. false: its begin was not seen. */
bool graphs_capture_take(struct graphs *g, const struct trace_event *ev, struct open_capture *to);

extern const struct section_table graphs_table;
void graphs_print(const void *a, const struct term *term);

#endif /* REPORT_KERNELS_GRAPHS_PRIV_H */
