/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of each process at the end of an interval. Identity and counts come from the daemon's
 * tables, procs.h and metrics.h, with one target per process. This part computes the differences
 * between intervals, and adds waits in progress, which no counter has.
 */
#ifndef TOP_STATS_H
#define TOP_STATS_H

#include "daemon/procs.h"
#include "trace/session.h"
#include "trace/thread_overhead.h"

struct top_sums {
	uint64_t calls, errors, launches;
	uint64_t copied;  /* bytes */
	uint64_t wait_ns; /* in waiting calls, of all threads together */
	uint64_t cost_ns; /* tracing overhead */
};

struct top_fn {
	const struct api_fn *fn;
	struct metrics_fn now, was, diff; /* diff: in the interval */
};

struct top_row {
	struct hash_link link;
	const struct metrics_target *target; /* one target per process */
	uint32_t pid;
	char owner[LABEL_NAME_SZ]; /* pod, container or user */
	char *command;
	bool is_shown; /* it has made a call, or is expected to; other processes only load libcuda
			*/
	bool is_expected;
	bool ended;
	bool was_shown; /* already shown as ended */
	bool is_late;	/* it started before us: its earlier allocations are unknown */
	bool unsized;	/* it copied data in this interval whose size is not counted */
	struct top_sums now, was, diff;
	uint64_t in_flight_ns; /* of waiting calls that have not returned */
	struct mem_totals mem;
	struct top_fn *fns;
	unsigned fn_cnt;
};
HASH_TABLE(top_row, target);

/* false: its threads ended before their cost was read. */
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
	struct top_row_table all;
	unsigned shown_cnt;
	unsigned long long began; /* ticks since boot */
	uint64_t from_ns, to_ns;  /* the interval */
	/* Totals, including processes without a row. */
	uint64_t cost_ns, cost_diff_ns;
	uint64_t lost, unlisted; /* records and counts; processes and functions */
	struct losses losses;	 /* the same as text, with full tables and libraries not traced */
	char lost_what[512];
};

/* 0 or -ENOMEM. */
int stats__open(struct top_stats *r, struct session *s);
void stats__close(struct top_stats *r);
void stats__event(struct top_stats *r, const struct trace_event *ev);
void stats__use(struct top_stats *r, uint32_t pid, const char comm[16]);
void stats__forget_fn(struct top_stats *r, unsigned func_id);
/* Shows a process before it makes its first call. */
void stats__expect(struct top_stats *r, uint32_t pid);
/* Ends the interval and begins the next: reads the counts. */
void stats__read(struct top_stats *r, uint64_t now);
/* Sums of all processes in the interval. */
struct top_sums stats__sums(const struct top_stats *r, uint64_t *device_bytes);

#endif /* TOP_STATS_H */
