/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of each process at the end of an interval. Who they are and what was counted is the
 * daemon's tables, procs.h and metrics.h, with a target for each process; here are the differences
 * from one interval to the next, and what no counter has: waits that go on.
 */
#ifndef TOP_STATS_H
#define TOP_STATS_H

#include "daemon/procs.h"
#include "trace/session.h"
#include "trace/thread_overhead.h"

struct top_sums {
	uint64_t calls, errors, launches;
	uint64_t copied;  /* bytes */
	uint64_t wait_ns; /* in calls that wait by their nature, of all threads together */
	uint64_t cost_ns; /* of tracing */
};

struct top_fn {
	const struct api_fn *fn;
	struct metrics_fn now, was, diff; /* diff: in the interval */
};

struct top_row {
	const struct metrics_target *target; /* whose: no two processes have the same */
	uint32_t pid;
	char owner[LABEL_NAME_SZ]; /* pod, container or user */
	char *command;
	bool is_shown; /* it has made a call, or is expected to; others do no more than load libcuda
			*/
	bool is_expected;
	bool ended;
	bool was_shown; /* since it has ended */
	bool is_late;	/* it ran before us: what it had allocated by then is not known */
	bool unsized;	/* it copied something in this interval whose size is not counted */
	struct top_sums now, was, diff;
	uint64_t in_flight_ns; /* of calls that wait and have not returned */
	struct mem_totals mem;
	struct top_fn *fns;
	unsigned fn_cnt;
	UT_hash_handle hh;
};

/* false: its threads went before they were asked. */
static inline bool row_knows_cost(const struct top_row *row)
{
	return !row->ended || !row->diff.calls || row->diff.cost_ns;
}

struct top_stats {
	struct session *session;
	struct config *cfg;
	struct metrics *metrics;
	struct dprocs procs;
	struct thread_overhead overhead;
	struct top_row *all;
	unsigned shown_cnt;
	unsigned long long began; /* in ticks since boot */
	uint64_t from_ns, to_ns;  /* the interval */
	/* Of all, those too that are in no row. */
	uint64_t cost_ns, cost_diff_ns;
	uint64_t lost, unlisted; /* records and counts; processes and functions */
	struct losses
		losses; /* the same, with tables that were full and libraries that were missed */
	char lost_what[512];
};

/* 0 or -ENOMEM. */
int stats__open(struct top_stats *r, struct session *s);
void stats__close(struct top_stats *r);
void stats__event(struct top_stats *r, const struct trace_event *ev);
void stats__use(struct top_stats *r, uint32_t pid, const char comm[16]);
void stats__forget_fn(struct top_stats *r, unsigned func_id);
/* A process is shown before it makes its first call. */
void stats__expect(struct top_stats *r, uint32_t pid);
/* The interval ends now, and the next begins: reads what was counted. */
void stats__read(struct top_stats *r, uint64_t now);
/* NULL: there is none, or it has ended. */
struct top_row *stats__find(const struct top_stats *r, uint32_t pid);
/* What all did in the interval. */
struct top_sums stats__sums(const struct top_stats *r, uint64_t *device_bytes);

#endif /* TOP_STATS_H */
