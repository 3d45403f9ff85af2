/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of a replay: replay_make.c makes it from the dependency graph, replay.c replays. */
#ifndef REPORT_STEP_REPLAY_PRIV_H
#define REPORT_STEP_REPLAY_PRIV_H

#include "report/layers/communication.h"
#include "step_priv.h"

struct step_ref {
	uint64_t start_ns;
	uint32_t seg;
	uint16_t thread;
};

/* Times that do not overlap, by begin; before_ns: sum of those before it. */
struct step_late {
	struct communication_wait wait;
	uint64_t before_ns;
};
struct step_lates {
	struct step_late *of;
	uint32_t cnt;
};

/* Executions that may be on streams of their own. */
enum step_sort { SORT_WORK, SORT_INPUT, SORT_COMM, SORT_CNT };

/* gpu_costs.def */
struct gpu_cost {
	uint64_t capability;
	int64_t launch_ns, node_ns, delay_ns;
	double pinned_rate;
};

struct step_sim {
	const struct steps *s;
	const struct step_graph *g;
	const struct step_window *windows; /* the steps */
	uint64_t window_cnt;
	const struct step_change *changes;
	unsigned change_cnt;
	/* CHANGE_GRAPH, ... are among them */
	bool has_graphs, pins, overlaps, overlaps_comm, batches;
	const struct gpu_cost *cost;
	double pinned_rate;	     /* of the trace, or that of the cost */
	struct step_ref *order;	     /* intervals of all threads, by start */
	uint32_t order_cnt, seg_cnt; /* seg_cnt: number of intervals, including unused ones */
	uint32_t *other;	     /* of each interval: one of another thread that it followed */
	uint64_t from_ns;	     /* replayed times are since then */
	uint64_t delay_ns[2]; /* usual delay of executions: after another one, after the call */
	int64_t *seg_end;     /* of each interval: its replayed end */
	int64_t *exec_end;    /* of each execution */
	int64_t latest_end;   /* of those replayed so far */
	int64_t *done_ns;     /* the latest replayed end of it and all before it */
	uint32_t *exec_first; /* lists of the executions of each call */
	uint32_t *exec_next;
	uint32_t *call_first; /* lists of the calls with executions that end in each interval */
	uint32_t *call_next;
	uint8_t *idle;	 /* of each interval: IDLE_BEFORE, IDLE_IN */
	uint32_t *group; /* of each interval: launches of the graph that it would begin; or 0 */
	/* Of each interval: how many probes of calls ran in it, and between the interval before it
	 * and it. probe_ns: overhead of each, half of that of a call; 0 unless CHANGE_UNTRACED. */
	uint32_t *probes_in, *probes_before;
	uint64_t probe_ns;
	struct step_lates lates[2];  /* CHANGE_ON_TIME: of other processes, of this one */
	uint32_t *awaited[SORT_CNT]; /* find_awaited() */
	bool *is_in_graph;	     /* of each interval: it would be part of a graph */
};

/* The thread's first interval that begins at this time or later. */
uint32_t step_first_seg(const struct step_graph *g, const struct step_thread *t, uint64_t ns);

/* STEP_TOPIC_IDLE has the time before an interval, and the interval. */
#define IDLE_BEFORE 1
#define IDLE_IN	    2
/* topics.c: sets idle, and examples in the steps. Returns the number of these intervals; without
 * GPU times 0. */
uint64_t step_idle_make(struct step_sim *m, struct step_examples *examples);

/* The end of the executions that it had to wait for; 0: there are none. */
uint64_t step_ready_ns(const struct step_graph *g, const struct step_exec *x);
/* It waited for its launch call, not for other executions. */
bool step_is_late_launch(const struct step_graph *g, const struct step_exec *x);

#endif /* REPORT_STEP_REPLAY_PRIV_H */
