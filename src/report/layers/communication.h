/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Results on collectives, for other analyses. */
#ifndef REPORT_LAYERS_COMMUNICATION_H
#define REPORT_LAYERS_COMMUNICATION_H

#include "report/report.h"

struct communication_result {
	uint64_t call_cnt; /* collectives, sends and receives */
	/* Small calls outside groups: each has its own launch. */
	uint64_t small_cnt, small_ns, small_at_ns;
	unsigned small_threads;		   /* threads that make those */
	const struct spread *late, *small; /* over time, all ranks; NULL without the analysis */
	/* A collective that a rank has not joined; open_seq 0: none */
	uint64_t open_seq, open_ns, open_at_ns;
	uint32_t open_in_cnt, open_pid; /* ranks in it; the first process that is missing */
};

/* A rank that others waited for. An episode is a collective that it began a millisecond or more
 * after the first rank, with those of all communicators that overlap with it; its length is the
 * lateness at the first of them. */
struct communication_late {
	uint32_t pid;
	uint64_t cnt;	  /* its episodes of at least half the typical length */
	uint64_t all_cnt; /* episodes of that length of all ranks */
	uint64_t typical_ns, max_ns, total_ns;
	uint64_t at_ns; /* when it came, in the longest */
};

/* Whether the call is a collective of less than 64 KiB outside a group: it has its own launch. */
bool communication_is_small(const struct trace_event *ev);
/* Gets the process's global rank: its number in the job. Returns false if it is not known. */
bool communication_rank(const struct report *r, uint32_t pid, uint32_t *rank);
/* Gets the rank that was late for the longest time in episodes that ended between these times, of
 * those that were late more often than by chance. Valid after the finish. Returns false if there is
 * none. */
bool communication_late(const struct report *r, uint64_t from_ns, uint64_t to_ns,
			struct communication_late *res);
/* Gets the process whose global rank this is. Returns false if there is none. */
bool communication_process(const struct report *r, uint32_t rank, uint32_t *pid);

/* A time in which other ranks waited for this process in a collective. */
struct communication_wait {
	uint32_t pid;
	uint64_t from_ns, to_ns;
	uint64_t by_ns; /* lateness at the first collective in it */
};
/* Gets the times in which pid waited for late: from the start of the first kernel of a collective
 * to that of the late process's, if they are known; else from call to call. late 0: for any
 * process; late == pid: in which others waited for it, from call to call. They are ordered by their
 * end, latest first, and those of one late process do not overlap. *waits is allocated, NULL if
 * there are none. Returns their number, or -ENOMEM. Valid after the finish. */
int communication_waits(const struct report *r, uint32_t pid, uint32_t late,
			struct communication_wait **waits);
/* Ranks of one machine. */
struct communication_of_clock {
	unsigned rank_cnt; /* processes */
	uint64_t cnt, ns;  /* how often they were late, and how long other ranks waited */
};
void communication_of_clock(const struct report *r, unsigned clock,
			    struct communication_of_clock *res);
void communication_result(const struct report *r, struct communication_result *res);

#endif /* REPORT_LAYERS_COMMUNICATION_H */
