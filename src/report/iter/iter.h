/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Iterations that were found; for other analyses, valid after the finish. */
#ifndef REPORT_ITER_ITER_H
#define REPORT_ITER_ITER_H

#include "model/call.h"
#include "report/report.h"

/* Measured values of each iteration. */
enum iter_stat {
	ITS_KERNELS,
	ITS_GRAPHS,
	ITS_CALLS,
	ITS_HTOD,
	ITS_DTOH,
	ITS_TIME,
	ITS_LAUNCH,
	ITS_SYNC,
	ITS_GAP,
	ITS_CNT
};

struct iter_dist {
	uint64_t min, median, p95, p99, max, total;
	double mean;
};

struct iter_result {
	uint64_t count, warmup, rounds; /* count 0: none were found */
	uint32_t pid, tid;
	double confidence;
	const char *why;
	uint64_t first_ns, last_ns;	/* begin of the first, end of the last */
	uint64_t steady_ns;		/* begin of the first after the warm-up */
	struct iter_dist dist[ITS_CNT]; /* without warm-up */
};
/* Returns whether this call ends a piece of its thread's work: it waits for the GPU after launches.
 * Iterations and steps of serving consist of such pieces. */
static inline bool iter_ends_piece(const struct trace_event *ev, uint64_t launches)
{
	return launches && call_blocks(ev);
}

/* Sets zeroes if the analysis did not run. */
void iter_result(const struct report *r, struct iter_result *res);
/* The iterations of that process alone, found in its own threads; zeroes if it has none. The first
 * IT_PROCS_MAX processes that launch have them, if there are two or more. */
void iter_of_process(const struct report *r, uint32_t pid, struct iter_result *res);
/* Iteration i of iter_result()'s count. */
struct iter_span {
	uint64_t begin_ns, end_ns;
	bool warmup;
	unsigned round; /* of consecutive iterations */
};
struct iter_span iter_at(const struct report *r, uint64_t i);
/* Number of the iteration at this moment, from 1. 0: none. */
uint64_t iter_number_at(const struct report *r, uint64_t ns);
/* Number of the round at this moment, from 1. 0: none, or pid is not iter_result()'s process. */
unsigned iter_round_at(const struct report *r, uint32_t pid, uint64_t ns);

#endif /* REPORT_ITER_ITER_H */
