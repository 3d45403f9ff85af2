/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Results on collectives, for other analyses. */
#ifndef REPORT_LAYERS_COMMUNICATION_H
#define REPORT_LAYERS_COMMUNICATION_H

#include "report/report.h"

struct communication_result {
	uint64_t call_cnt; /* collectives, sends and receives */
	/* Small calls outside groups: each has its own launch. */
	uint64_t small_cnt, small_ns, small_at_ns;
	unsigned small_threads; /* threads that make those */
	/* The rank that was late for the longest time, over all communicators; joined 0: none is
	 * late */
	uint64_t joined_cnt, late_cnt, late_ns, late_max_ns, late_at_ns;
	uint32_t late_pid;
	const struct spread *late, *small; /* over time, all ranks; NULL without the analysis */
	/* A collective that a rank has not joined; open_seq 0: none */
	uint64_t open_seq, open_ns, open_at_ns;
	uint32_t open_in_cnt, open_pid; /* ranks in it; the first process that is missing */
};

/* Gets the process's rank in the job: in the communicator that includes all processes which are in
 * any. Returns false if the trace has none, or the process is not in it. */
bool communication_rank(const struct report *r, uint32_t pid, uint32_t *rank);
void communication_result(const struct report *r, struct communication_result *res);

#endif /* REPORT_LAYERS_COMMUNICATION_H */
