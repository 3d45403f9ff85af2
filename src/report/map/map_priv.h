/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the map, and the functions that its files share.
 *
 * map.c reads calls and finds their enclosing calls; python.c makes paths of frames; scopes.c
 * handles ranges and operators; tree.c has the nodes and their sums; final.c adds stages and
 * iterations at the end; graphs.c has the nodes of replayed graphs; order.c sorts them;
 * functions.c sums Python functions; print.c and rows.c write the map.
 */
#ifndef REPORT_MAP_PRIV_H
#define REPORT_MAP_PRIV_H

#include "map.h"

#include "model/gpu_busy.h"
#include "report/collect.h"
#include "report/kernels/roofline.h"
#include "report/section.h"

/* Limits per process: nodes, sums of nodes and slices, Python paths. */
#define MAP_SUMS   (1u << 18)
#define MAP_SLICES 4096
/* Nesting limit of Python frames, ranges and operators; deeper ones are cut and counted. */
#define MAP_DEPTH 64
/* Numbered passes of a function; further ones share a number. */
#define MAP_PASSES 128
/* Calls of a thread that wait for their enclosing calls and ranges. */
#define MAP_PENDING 4096
#define MAP_NONE    UINT32_MAX
/* Nodes of a captured call below those that its whole capture shares. */
#define MAP_GRAFT (4 * MAP_DEPTH)

enum map_kind {
	MAP_ROOT,
	MAP_PROCESS,
	MAP_STAGE,
	MAP_ITERATIONS,
	MAP_THREAD,
	MAP_RANGE,
	MAP_PYTHON,
	MAP_OPERATOR,
	MAP_BACKWARD, /* a node of autograd */
	MAP_CALL,
	MAP_KERNEL,
	MAP_GRAPH,    /* graphs of which the captured calls are not known */
	MAP_REPLAYED, /* what executed a node of a graph; only until map_finish_tree() */
	MAP_KIND_CNT
};

struct map_sums {
	uint64_t calls, launches, bytes, flops, unfinished;
	uint64_t host_ns; /* in these calls, without nested calls */
	uint64_t gap_ns;  /* between consecutive calls here */
	uint64_t gpu_cnt, gpu_ns;
	uint64_t busy_ns; /* GPU time not covered by earlier executions */
	uint64_t idle_ns; /* GPU idle time before these executions */
	struct roof_time roof;
	uint64_t passes; /* of a function */
};

/* Sums of a node in one slice of the trace. */
struct map_part {
	struct map_part *next; /* earlier */
	uint32_t slice;
	struct map_sums sums;
};

struct map_node {
	const char *name, *file; /* interned; file: of Python code */
	struct map_part *parts;	 /* latest first */
	uint32_t parent, depth;
	uint32_t number; /* of a pass; pid of a process; 0: none */
	uint8_t kind;
};

/* A function in a path of Python code; its index identifies the path. 0: none. */
struct map_path {
	const char *name, *file;
	uint32_t parent, number, depth;
};

/* Passes of a function within one pass of its caller. */
struct map_family {
	uint64_t serial; /* of the caller's pass */
	uint64_t calls;	 /* in the latest finished pass */
	uint32_t cnt;
};

struct map_frame {
	const char *name, *file;
	uint64_t serial; /* of this pass */
	uint64_t calls;	 /* the thread's calls before this pass, or before its latest round */
	uint64_t waits;	 /* the same for waits */
	uint32_t line, first_line, second_line, path, family;
};

/* A Python function. */
struct map_code {
	uint32_t first_line; /* at which its passes begin if not at their first line; 0: none */
	bool is_noise;
};

/* The Python frames of a thread, as of its latest call. */
struct map_python {
	const struct stack *stack; /* of the previous call */
	uint64_t calls, waits;	   /* so far */
	struct map_frame frames[MAP_DEPTH];
	unsigned cnt;
};

/* A call or execution whose place is not known yet. */
struct map_pending {
	uint64_t key;	    /* of the call; for an execution, of the launching call */
	uint64_t parent;    /* key of the enclosing call; 0: none */
	uint64_t range, op; /* keys; 0: none */
	const char *range_text, *op_name;
	const char *name; /* kernel or function name */
	uint64_t start_ns, end_ns;
	uint64_t inner_ns; /* in nested calls */
	uint64_t bytes, flops;
	uint64_t up;		/* number of the enclosing call; 0: not ended yet */
	uint32_t path, new_cnt; /* new_cnt: functions at the path's end that began a pass */
	uint32_t slice, inner_cnt;
	uint32_t graph_row;	   /* of a captured call, or of an executed node; or GRAPH_NONE */
	struct gpu_device *device; /* of an execution; NULL: limit reached */
	uint32_t roof_device;	   /* of an execution: roofline_device() */
	char what;		   /* of an execution: first letter of its op */
	uint8_t kind;		   /* MAP_CALL, MAP_KERNEL */
	bool is_gpu, is_copy, is_local, is_launch, is_cut, has_time;
};

struct map_thread {
	struct map_pending *pending; /* a ring of cap */
	unsigned cap;
	uint64_t first, next; /* numbers of the first pending call, and of the next; from 1 */
	uint64_t outer;	      /* number of the latest call without an enclosing one */
	struct map_python *python;
	uint32_t root;	   /* its node */
	uint32_t last;	   /* parent node of the last call; MAP_NONE: none yet */
	uint64_t last_end; /* of that call */
	uint64_t aside_ns; /* in calls since then without frames, although others have frames */
	uint32_t pid;
};

/* Ranges and operators that have ended; indexed by the last bits of their keys. */
#define MAP_SCOPES (1u << 16)
struct map_scope {
	uint64_t key, parent;
	const char *name;
	uint64_t seq; /* key of autograd's sequence number; 0: none */
	bool is_backward;
	bool is_open; /* an operator that has not ended, with calls in it */
};

/* A forward operator with calls in it; indexed by the last bits of seq. */
struct map_forward {
	uint64_t seq;
	uint32_t node;	 /* MAP_NONE: its calls have no place yet, or never get one */
	uint32_t thread; /* MAP_NONE: several threads have operators with this number */
	bool is_pending, is_used;
};

/* Ranges open for so long that calls in them were placed before their end; by key. */
#define MAP_LONG 4096

/* Places of calls in the tree; indexed by the last bits of their keys. */
#define MAP_CALLS (1u << 18)
struct map_position {
	uint64_t key;
	uint32_t node;	 /* MAP_NONE: pending */
	uint32_t thread; /* thread that has it pending */
	uint32_t slice;
};

struct map_slice {
	uint64_t begin_ns, first_ns, last_ns; /* first and last: of calls that began in it */
};

struct map_final {
	const char *name, *file;
	struct map_sums sums, self;   /* sums: including nodes below */
	uint64_t per;		      /* iterations that it is part of; 0: none */
	uint32_t parent, first, next; /* first child, next sibling: heaviest first */
	uint32_t number, cnt;	      /* cnt: children */
	uint32_t place;		      /* in JSON: parents first */
	uint8_t kind;
	bool is_numbered; /* other passes of its function exist */
};

/* Python functions. */
struct map_function {
	const char *name, *file;
	struct map_sums self, total;
};

/* A row of the text. */
struct map_line {
	const struct map_final *f; /* the first of its chain; NULL: the row counts nodes left out */
	unsigned left, depth;
};
struct map_lines {
	struct map_line *of;
	unsigned cnt, cap, lost;
};

struct map {
	struct report *r;
	struct keys node_keys, path_keys, family_keys, thread_keys, code_keys;
	struct map_node *nodes;
	unsigned node_cap;
	struct memlimit_share part_rows;
	struct map_path *paths;
	unsigned path_cap;
	struct map_family *families;
	unsigned family_cap;
	struct map_code *codes;
	unsigned code_cap;
	uint64_t serial;
	struct map_thread *threads;
	unsigned thread_cap;
	struct map_scope *scopes; /* MAP_SCOPES each: ranges, operators */
	struct map_scope *op_scopes;
	struct map_forward *forwards;
	struct keys long_keys;
	uint32_t long_nodes[MAP_LONG];
	struct map_position *places;	   /* MAP_CALLS */
	uint32_t *captured, *capture_tops; /* graphs.c */
	uint32_t *graph_counts;		   /* per node; 0 except in graphs.c */
	unsigned captured_cap, capture_top_cap;
	struct gpu_devices devices;
	struct map_slice slices[MAP_SLICES];
	unsigned slice_cnt, shift;
	uint64_t cut_cnt, launches_since;
	/* Counts of missing data. */
	uint64_t rejected, cut_frames, unnamed_frames, early, unknown_gpu;
	uint64_t divided_ns; /* GPU time of whole graphs that was divided by shares */
	/* Set by map_finish_tree(). */
	struct keys final_keys;
	struct map_final *finals;
	unsigned final_cap;
	struct keys function_keys;
	struct map_function *functions;
	unsigned function_cap;
	bool has_gpu;
};

/* tree.c */
/* MAP_NONE: limit reached, or no memory. */
uint32_t map_node_of(struct map *m, uint32_t parent, enum map_kind kind, const char *name,
		     const char *file, uint32_t number);
/* NULL: limit reached, or no memory. */
struct map_sums *map_sums_of(struct map *m, uint32_t node, uint32_t slice);
/* slice: a result of map_slice_at(), of any age. */
static inline uint32_t map_slice_now(const struct map *m, uint32_t slice)
{
	return slice >> m->shift;
}
uint32_t map_slice_at(struct map *m, uint64_t ns);
void map_slice_cut(struct map *m, uint64_t ns);
uint32_t map_common(const struct map *m, uint32_t a, uint32_t b);
void map_tree_free(struct map *m);
void map_sums_add(struct map_sums *to, const struct map_sums *x);
void map_sums_sub(struct map_sums *from, const struct map_sums *x);

/* scopes.c */
/* Traces that are read together have distinct process ids. Returns 0 only for id 0. */
static inline uint64_t map_key(uint32_t pid, uint64_t id)
{
	return id ? pair_key(id, pid) ?: 1 : 0;
}
/* Returns true if all scopes of a call are known; in the backward pass also the place of its
 * forward operator. */
bool map_scopes_known(struct map *m, const struct map_pending *h);
/* The thread whose pending calls of a forward operator this call waits for; or MAP_NONE. */
uint32_t map_forward_ahead(struct map *m, const struct map_pending *h);
/* The forward operator whose backward pass this call is in; NULL: none with a node. */
const struct map_forward *map_forward_of(struct map *m, const struct map_pending *h);
/* The node of a range below root; text: its name, if it has not ended yet. */
uint32_t map_range_node(struct map *m, uint32_t root, uint64_t key, const char *text);
/* The node of a call's operators below node: of all, or those from the backward pass of one on. */
uint32_t map_operator_node(struct map *m, const struct map_thread *t, uint32_t node,
			   const struct map_forward *of, const struct map_pending *h);
/* Marks an operator as having calls. */
void map_operator_calls(struct map *m, uint64_t op);
void map_operator_ended(struct map *m, const struct trace_event *ev, uint32_t thread);
/* The node of a range with calls placed before its end; NULL: none. */
uint32_t *map_long_of(struct map *m, uint64_t key);

/* graphs.c */
/* The node of a captured call; row: of graphs_captured_row(). */
void map_graph_captured(struct map *m, uint32_t row, uint32_t node);
/* The node of the execution of a graph's node, or of a whole graph; row: of graphs_executed_row().
 */
uint32_t map_graph_node(struct map *m, uint32_t launch, uint32_t row, const char *name);
/* The nodes of the captured call `row` that are repeated below the launch, outermost first. Returns
 * their number; 0: not known, or more than MAP_GRAFT. */
unsigned map_graph_path(struct map *m, uint32_t launch, uint32_t row, uint32_t path[MAP_GRAFT]);
/* Returns true if the paths of the capture of `row` begin with this node. */
bool map_graph_is_top(struct map *m, uint32_t row, uint32_t node);

/* python.c */
/* The path of a call's Python frames; 0: none. new_cnt: functions at its end that began a pass. */
uint32_t map_path_of(struct map *m, uint32_t thread, const struct stack *stack, uint32_t *new_cnt);

/* functions.c */
void map_sum_functions(struct map *m);

/* order.c */
/* Sets the children of each final node, in order. Returns false if memory is short. */
bool map_sort_children(struct map *m);

/* final.c */
void map_finish_tree(struct map *m);
/* Time of the thread in a node. */
static inline uint64_t map_wall(const struct map_sums *s)
{
	return s->host_ns + s->gap_ns;
}
/* The weight selected by opts.map. */
uint64_t map_weight(const struct map *m, const struct map_sums *s);
/* Time that the executions of known work could take less, at most. */
static inline uint64_t map_headroom(const struct map_sums *s)
{
	uint64_t roof_ns = (s->roof.roof_ps + 500) / 1000;

	return s->roof.known_ns > roof_ns ? s->roof.known_ns - roof_ns : 0;
}
/* Share of the node's GPU time, with idle time before it, that is idle; -1: not known. */
static inline double map_idle_share(const struct map_sums *s)
{
	return s->busy_ns + s->idle_ns ? ratio_of(s->idle_ns, s->busy_ns + s->idle_ns) : -1;
}
/* The displayed name; in buf or in the node. */
const char *map_final_name(const struct map_final *f, char *buf, size_t size);

/* print.c, rows.c */
extern const struct section_table map_table, map_lines_table;
/* The name of a row, with those of its chain; in buf. */
const char *map_line_name(const struct map *m, const struct map_line *x, char buf[SECTION_BUF]);
void map_print(const void *a, const struct term *term);
/* Sets the places of all nodes. */
void map_number(struct map *m);

#endif /* REPORT_MAP_PRIV_H */
