/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of the analysis of serving, and the functions that its files share.
 *
 * serving.c, passes.c: make steps from calls while the trace is read; find.c: finds the serving
 * thread, the tokens' dimension of its products, and prefill steps; sum.c: results; blocks.c: use
 * of memory; pauses.c: Python between steps; print.c.
 */
#ifndef REPORT_SERVING_SERVING_PRIV_H
#define REPORT_SERVING_SERVING_PRIV_H

#include "report/collect.h"
#include "serving.h"

#define SERVING_THREADS_MAX  4096
#define SERVING_STEPS_MAX    (1u << 17) /* per process */
#define SERVING_PIECES_MAX   (1u << 14) /* per thread, if no products identify steps */
#define SERVING_WEIGHTS_MAX  (1u << 16)
#define SERVING_BLOCKS_MAX   8192
#define SERVING_CAPTURES_MAX (1u << 14)
#define SERVING_SEEN_MAX     (1u << 16)
#define SERVING_PAUSES_MAX   1024
#define SERVING_LIST_MAX     10000 /* steps in JSON */
#define SERVING_STEPS_MIN    8	   /* minimum for an analysis */
#define SERVING_PADS_MAX     64	   /* graph sizes that are listed */

/* The tokens' dimension of C: its columns (Fortran order), or its rows. */
enum serving_axis { AXIS_N, AXIS_M, AXIS_CNT };

/* Majority vote (Boyer and Moore): the value that more than half have, if there is one. */
struct vote {
	uint64_t value;
	uint32_t weight;
};

/* Address and size of a product's weights. */
struct weight_set {
	uint64_t id, bytes;
};

/* Products with weights, in a step or a capture. */
struct products {
	uint32_t cnt;
	uint64_t first, last; /* ids of weights */
	struct vote vote[AXIS_CNT];
	uint64_t rows[AXIS_CNT]; /* of the last one, which makes the logits */
};

enum serving_phase { PHASE_UNKNOWN, PHASE_PREFILL, PHASE_DECODE, PHASE_CNT };

/* A candidate for a step: a thread's work up to a wait. */
struct pass {
	uint64_t begin_ns, end_ns;
	uint64_t call_ns, launch_ns, sync_ns, gpu_ns;
	uint64_t last_launch_ns; /* duration of the last launch */
	uint32_t launches, graphs;
	struct products products;
	uint64_t first_graph;
	uint64_t padded[AXIS_CNT], padded_rows[AXIS_CNT]; /* of the graph with the most tokens */
	uint8_t mark;  /* enum serving_phase, from an NVTX range */
	bool is_setup; /* loaded code or captured a graph */
};

struct serving_step {
	uint64_t begin_ns, end_ns, between_ns;
	uint64_t call_ns, launch_ns, sync_ns, gpu_ns;
	uint32_t launches, graphs, products;
	uint32_t tokens_of[AXIS_CNT], rows_of[AXIS_CNT];
	uint32_t padded_of[AXIS_CNT], padded_rows_of[AXIS_CNT];
	uint32_t head; /* hash of the last weights' id */
	uint8_t mark, phase;
	bool is_setup;
	bool at_most;	 /* tokens is the graph's size, an upper bound */
	uint32_t tokens; /* 0: not known */
	uint32_t batch;	 /* sequences; 0: not known */
};

struct serving_thread {
	uint32_t pid, tid;
	const char *comm;
	struct pass cur, pending; /* pending: it may continue after its wait */
	bool has_pending, pending_is_cut;
	bool is_joined;	   /* the main thread has its steps */
	bool is_late;	   /* weights existed before the trace */
	uint64_t tail;	   /* last weights of a pass */
	uint64_t ended_ns; /* end of the last step; 0: none */
	uint64_t call_end_ns;
	const struct stack *stack; /* of the last call */
	const struct api_fn *fn;   /* the last call */
	uint64_t captured_ns;	   /* start of the last launch that became a node */
	struct products capture;   /* of the graph being captured */
	uint64_t prev[AXIS_CNT];   /* sizes in the previous product */
	uint64_t before[AXIS_CNT]; /* sizes in the previous pass */
	uint64_t pairs, same[AXIS_CNT], changed[AXIS_CNT];
	uint64_t product_cnt, weight_bytes, weight_cnt;
	uint32_t pass_cnt; /* most products in a pass or graph */
	const char *range; /* the range that range_mark is for */
	uint8_t range_mark;
	struct serving_step *steps;
	unsigned cnt, cap;
};

struct serving_capture {
	struct products p;
};

struct memory_piece {
	uint64_t ptr, size, start_ns, end_ns; /* end 0: still allocated */
	uint32_t pid;
	bool weights;
};

/* Time between two steps, by the calls around it. */
struct pause {
	const char *in, *in_file, *from, *to; /* Python functions, or calls if in is NULL */
	uint64_t cnt, ns, max_ns, at_ns;
	uint32_t thread;
};

/* Engines recognised by name. */
enum serving_engine {
#define ENGINE(ID, name, file, kernel) ENGINE_##ID,
#include "engines.def"
	ENGINE_CNT
};

struct size_row {
	uint32_t size;
	uint64_t cnt;
};

struct serving {
	struct report *r;
	struct keys thread_keys, capture_keys, weight_keys, block_keys, seen_keys, pause_keys;
	struct serving_thread *threads;
	struct serving_capture *captures;
	struct memory_piece *blocks;
	struct pause *pauses;
	unsigned thread_cap, capture_cap, block_cap, pause_cap;
	struct memlimit_share step_rows;
	uint64_t lost_steps, lost_calls, lost_blocks, lost_pauses; /* rejected by the limits */
	bool engines[ENGINE_CNT];
	uint64_t request_cnt, request_ns; /* ranges named "request" */
	uint64_t gpu_cnt, failed_alloc_cnt, failed_alloc_ns;
	/* valid after the finish */
	uint32_t main; /* thread; KEYS_NONE: no thread has steps */
	enum serving_axis axis;
	double axis_confidence, phase_confidence;
	const char *phase_by;
	uint64_t threshold;  /* phases by size: prefill has more tokens */
	uint32_t old_graphs; /* graphs per decode step; 0: their capture was seen */
	char why[512];
	struct serving_result res;
	struct serving_sum all, setup;
	uint64_t replay_cnt, requests_min, rows_made;
	bool rows_at_most;	      /* graphs may be for more sequences than there were */
	uint64_t pause_cnt, pause_ns; /* between steps: so long that there was no work */
	uint64_t between_ns, between_median_ns, between_p95_ns;
	uint64_t batch_min;
	struct size_row sizes[SERVING_PADS_MAX];
	unsigned size_cnt;
	uint64_t weights_in_blocks, kv_bytes, other_bytes, stay_bytes, kv_cnt;
};

static inline void vote_add(struct vote *v, uint64_t value)
{
	if (v->weight && v->value != value) {
		v->weight--;
		return;
	}
	v->value = value;
	v->weight++;
}

/* As keys_get(), but does not count rejected rows. */
uint32_t serving_key(struct keys *k, uint64_t key, uint32_t max, enum limit_table t);

/* passes.c */
/* Adds a matrix product that ran, or became part of a graph. */
void serving_product(struct serving *s, struct serving_thread *t, const struct trace_event *ev);
void serving_capture_end(struct serving *s, struct serving_thread *t, const struct trace_event *ev);
void serving_graph(struct serving *s, struct serving_thread *t, const struct trace_event *ev);
/* Ends the piece at a wait. */
void serving_end_piece(struct serving *s, struct serving_thread *t);
void serving_end_thread(struct serving *s, struct serving_thread *t);

/* blocks.c */
void serving_memory(struct serving *s, const struct trace_event *ev);
/* Called when an address of weights is new. Returns false if their allocation was not seen. */
bool serving_block_is_weights(struct serving *s, uint32_t pid, uint64_t ptr);
void serving_sum_memory(struct serving *s);

/* pauses.c */
/* Adds the time between two steps, from the thread's last call to this one. */
void serving_pause(struct serving *s, struct serving_thread *t, const struct trace_event *ev);
void serving_sort_pauses(struct serving *s);

/* find.c */
void serving_find(struct serving *s);
/* sum.c */
void serving_sum(struct serving *s);
static inline struct serving_thread *serving_main(const struct serving *s)
{
	return s->main == KEYS_NONE ? NULL : &s->threads[s->main];
}
const char *serving_phase_name(enum serving_phase p);
extern const char *const serving_engine_names[ENGINE_CNT];
static inline uint64_t step_ns(const struct serving_step *x)
{
	return x->end_ns > x->begin_ns ? x->end_ns - x->begin_ns : 0;
}
/* Returns true if the time before the step is too long to be part of the engine's loop. */
bool serving_is_pause(const struct serving *s, const struct serving_step *x);

extern const struct section_table serving_table;
void serving_print(const void *a, const struct term *term);

#endif /* REPORT_SERVING_SERVING_PRIV_H */
