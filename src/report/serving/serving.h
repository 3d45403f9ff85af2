/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Serving results for other analyses, from its finish on. */
#ifndef REPORT_SERVING_SERVING_H
#define REPORT_SERVING_SERVING_H

#include "report/report.h"

/* Steps of one kind; times are sums. */
struct serving_sum {
	uint64_t cnt, tokens; /* tokens: only steps whose number is known */
	uint64_t tokens_cnt;  /* steps with known tokens */
	uint64_t ns, median_ns, p95_ns, max_ns;
	uint64_t call_ns, launch_ns, sync_ns, gpu_ns;
	uint64_t launches, graphs;
};

struct serving_result {
	bool found;	    /* the trace shows serving */
	bool has_gpu_times; /* gpu_ns is known */
	uint32_t pid;
	uint64_t first_ns, last_ns;
	struct serving_sum prefill, decode;
	uint64_t batch_median, batch_max; /* of decode steps; 0: not known */
	uint64_t between_ns;		  /* from a decode step to the next step, without pauses */
	/* decode steps launched kernel by kernel although others replay graphs */
	uint64_t eager_cnt, eager_median_ns, replay_median_ns, eager_at_ns;
	uint64_t eager_batch_max, graph_batch_max; /* 0: not known */
	/* replays of graphs for more sequences than there were */
	uint64_t padded_cnt, padded_known_cnt, padded_rows, padded_real_rows, padded_at_ns;
	/* prefill between two decode steps: it delayed decoding */
	uint64_t block_cnt, block_ns, block_max_ns, block_at_ns;
	uint64_t block_all_ns, block_gpu_ns; /* of these steps: all time, and GPU work in it */
	/* prompts admitted right after sequences had ended; the resulting batch sizes */
	uint64_t admit_cnt, refill_cnt, level_min, level_max;
	uint64_t failed_alloc_cnt; /* failed allocations of GPU memory during the steps */
};
/* All zero if the analysis did not run. */
void serving_result(const struct report *r, struct serving_result *res);

/* Step i of the thread that serves, in the order of their begin. false: there are no more. */
struct serving_span {
	uint64_t begin_ns, end_ns;
	bool is_prefill,
		is_decode; /* both false: of no kind, or it loaded code or captured a graph */
};
bool serving_step_at(const struct report *r, uint64_t i, struct serving_span *span);

/* Time from decode step to decode step between these times in which the GPU was idle; without GPU
 * times, in which the host did not wait for it. */
uint64_t serving_decode_idle(const struct report *r, uint64_t from_ns, uint64_t to_ns);

#endif /* REPORT_SERVING_SERVING_H */
