/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes that use CUDA: who they are, their levels, and what was counted of each so far. */
#ifndef DAEMON_PROCS_H
#define DAEMON_PROCS_H

#include <uthash.h>

#include "config.h"
#include "metrics/labels.h"
#include "metrics/metrics.h"
#include "trace/source.h"
#include "util/quota.h"

struct count_row;
struct counted_error;

struct dproc {
	uint32_t pid;
	ct_generation generation; /* whose counts are in it; 0: nothing was counted yet */
	uid_t uid;
	uid_t owner; /* whose share it takes */
	char comm[17];
	char *command; /* command line, blanks between the words */
	bool unread;   /* the command line is not known: its name stands for it */
	struct labels labels;
	enum proc_level level;
	bool by_ctl;   /* the level was set by hand, and stays */
	unsigned rule; /* line of the rule that it has it from; 0: none */
	enum ct_proc_level kernel_level;
	uint64_t known_ns;	  /* when kernel_level was first set for this program */
	uint64_t changes;	  /* of kernel_level */
	uint64_t burst_until_ns;  /* sampled: traced until then; 0: no */
	uint64_t burst_next_ns;	  /* sampled: by the timer */
	uint64_t burst_caused_ns; /* when something last caused one; 0: never */
	uint64_t bursts;
	struct metrics_target *target;
	struct mem_totals mem;
	struct count_row *counts;
	struct counted_error *errors;
	unsigned libs_look; /* the last that has looked at it (daemon_libs.c) */
	char *suffix; /* ,"container":"..." and so on, as it stands in its lines; NULL: nothing, or
			 no memory */
	UT_hash_handle hh;
};

/* What happened that something may be done about. */
enum cause { CAUSE_ERROR, CAUSE_XID, CAUSE_SYNC, CAUSE_MEMORY };

#define DPROCS_REFUSED 256
#define DPROCS_RECENT  64
struct drefused {
	uint32_t pid;
	uint64_t ns;
};

/* What a count takes at most that was read from a source. */
#define DPROC_COUNT_SZ 1120

struct dprocs {
	struct dproc *by_pid;
	struct dproc *recent[DPROCS_RECENT]; /* asked for last, by pid */
	struct quota *quota;
	struct quota_owners users;
	struct drefused refused[DPROCS_REFUSED]; /* newest of those that there was no room for */
	struct sources *sources;		 /* count, and are told the levels */
	struct fnset *fns;
	struct metrics *metrics;
	const struct config *cfg;
	const char *root; /* where the machine's files are: see labels.h */
	bool by_process;  /* each is a target by itself, not its container and command */
	uint64_t made;	  /* so far */
	uint64_t bursts;
	/* Seen in counts, of a process at level metrics: ns is the length of a synchronisation. */
	void (*caused)(void *ctx, struct dproc *p, enum cause why, uint64_t ns);
	void *ctx;
};

/* Are a function's calls records at level metrics, too? What they teach cannot be counted. */
bool dprocs__is_always(const struct dprocs *ps, enum ct_redact redact, const struct api_fn *fn);
/* Makes it when it is new: reads its labels, finds its level. comm: for when it is gone already.
 * NULL: there is no room, or none for its user. */
struct dproc *dprocs__get(struct dprocs *ps, uint32_t pid, const char *comm);
struct dproc *dprocs__find(const struct dprocs *ps, uint32_t pid);
/* Who an event is about; NULL: nobody, or nobody for whom there is room. */
struct dproc *dprocs__of(struct dprocs *ps, const struct trace_event *ev);
/* What a level means outside of bursts. */
enum ct_proc_level dproc_kernel_level(enum proc_level level);
/* Is every call of it a record now? */
static inline bool dproc_is_traced(const struct dproc *p)
{
	return p->kernel_level == CT_PROC_TRACE;
}
/* It runs another program: another name, maybe another level; its memory is gone. */
void dprocs__exec(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* It has ended: what was counted goes to its target. life 0: not known. */
void dprocs__remove(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* One that there was no room for has ended: what was counted is nobody's. */
void dprocs__take_unknown(struct dprocs *ps, uint32_t pid, ct_generation generation);
/* Those whose end was not seen; gone gets each. Looks again at what could not be read. */
void dprocs__sweep(struct dprocs *ps, void (*gone)(void *ctx, uint32_t pid), void *ctx);
/* The configuration has changed. */
void dprocs__reload(struct dprocs *ps);
/* By hand; level < 0: what the rules say. */
void dprocs__set_level(struct dprocs *ps, struct dproc *p, int level);
/* A burst of ns from now on. */
void dprocs__burst(struct dprocs *ps, struct dproc *p, uint64_t now_ns, uint64_t ns);
/* Bursts that begin or end by the clock; true when the last one has ended with this. */
bool dprocs__clock(struct dprocs *ps, uint64_t now_ns);
bool dprocs__any_burst(const struct dprocs *ps);
/* Reads what the sources have counted. */
void dprocs__read_counts(struct dprocs *ps);
/* Takes the counts of programs whose end no record told, after some seconds: those of processes
 * that are not known go to the others. */
void dprocs__take_left(struct dprocs *ps);
void dprocs__read_errors(struct dprocs *ps);
/* Live memory has changed. */
void dproc__set_memory(struct dproc *p, const struct mem_totals *now);
void dprocs__free(struct dprocs *ps);

#endif /* DAEMON_PROCS_H */
