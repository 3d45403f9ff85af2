/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
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
};

struct exec {
	uint64_t handle, graph;
	uint32_t pid;
	enum graph_how how;
	struct nodes nodes;
	uint64_t launches, launch_ns, instantiate_ns, updates, first_ns;
	uint64_t capture_id; /* of its graph */
	bool destroyed;
};

/* An open capture. */
struct open_capture {
	uint64_t id; /* of the call that began it */
	struct capture_stream origin;
	uint64_t graph; /* that it adds to; 0: it makes a new one */
	struct nodes nodes;
};

struct graph_proc {
	struct hash_link link;
	uint32_t pid;
	struct open_capture *caps;
	unsigned cnt, cap;
};
HASH_TABLE(graph_proc, pid);

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
	struct exec list[GRAPHS_LIST]; /* destroyed ones; from the finish on, most launches first */
	unsigned list_cnt;
	uint64_t rejected;
};

/* Counts nodes that a call on a capturing stream adds. */
void graphs_capture_event(struct graphs *g, const struct trace_event *ev);
void graphs_capture_forget(struct graphs *g, uint32_t pid);
/* Moves the capture that the call ends to *to. false: its begin was not seen. */
bool graphs_capture_take(struct graphs *g, const struct trace_event *ev, struct open_capture *to);

extern const struct section_table graphs_table;
void graphs_print(const void *a, const struct term *term);

#endif /* REPORT_KERNELS_GRAPHS_PRIV_H */
