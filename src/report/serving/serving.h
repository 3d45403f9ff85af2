/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What other analyses ask of serving, from its finish on. */
#ifndef REPORT_SERVING_SERVING_H
#define REPORT_SERVING_SERVING_H

#include "report/report.h"

/* Steps of one kind. Times are sums. */
struct serving_sum {
	uint64_t cnt, tokens; /* tokens: of those steps whose number is known */
	uint64_t tokens_cnt;  /* so many are known */
	uint64_t ns, median_ns, p95_ns, max_ns;
	uint64_t call_ns, launch_ns, sync_ns, gpu_ns;
	uint64_t launches, graphs;
};

struct serving_result {
	bool found;	    /* the trace looks like serving */
	bool has_gpu_times; /* gpu_ns is known */
	uint32_t pid;
	uint64_t first_ns, last_ns;
	struct serving_sum prefill, decode;
	uint64_t batch_median, batch_max; /* of decode steps; 0: not known */
	uint64_t between_ns;		  /* from a decode step to the next step, without pauses */
	/* decode steps that ran kernel by kernel although others replay graphs */
	uint64_t eager_cnt, eager_median_ns, replay_median_ns, eager_ns, eager_at_ns;
	uint64_t eager_batch_max, graph_batch_max; /* 0: not known */
	/* replays whose graph is for more sequences than there were */
	uint64_t padded_cnt, padded_known_cnt, padded_rows, padded_real_rows, padded_at_ns;
	/* prefill between two decode steps: whoever decoded had to wait */
	uint64_t block_cnt, block_ns, block_max_ns, block_at_ns;
	/* prompts let in right after sequences had ended; the batch sizes that this led to */
	uint64_t admit_cnt, refill_cnt, level_min, level_max;
	uint64_t failed_alloc_cnt; /* allocations of the GPU's memory during the steps */
};
/* Zeroes when the analysis did not run. */
void serving_result(const struct report *r, struct serving_result *res);

#endif /* REPORT_SERVING_SERVING_H */
