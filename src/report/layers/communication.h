/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Collectives: what other analyses ask of them. */
#ifndef REPORT_LAYERS_COMMUNICATION_H
#define REPORT_LAYERS_COMMUNICATION_H

#include "report/report.h"

struct communication_result {
	uint64_t call_cnt; /* collectives, sends and receives */
	/* Of those, small and in no group: each has a launch of its own. */
	uint64_t small_cnt, small_ns, small_at_ns;
	unsigned small_threads; /* that make those */
	/* The rank that came last most of the time, all communicators; joined 0: none is late */
	uint64_t joined_cnt, late_cnt, late_ns, late_max_ns, late_at_ns;
	uint32_t late_pid;
	const struct spread *late, *small; /* by time, of all ranks; NULL without the analysis */
	/* A collective that a rank has not come to; open_seq 0: there is none */
	uint64_t open_seq, open_ns, open_at_ns;
	uint32_t open_in_cnt, open_pid; /* ranks in it; the first process that is not */
};

/* The number of that process in the job: its rank in the communicator that all processes are in
 * which are in any. false: the trace has no such communicator, or the process is in none. */
bool communication_rank(const struct report *r, uint32_t pid, uint32_t *rank);
void communication_result(const struct report *r, struct communication_result *res);

#endif /* REPORT_LAYERS_COMMUNICATION_H */
