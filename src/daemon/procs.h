/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes that use CUDA: their identity, levels and counts so far. */
#ifndef DAEMON_PROCS_H
#define DAEMON_PROCS_H

#include "config.h"
#include "live_stage.h"
#include "metrics/labels.h"
#include "metrics/metrics.h"
#include "trace/source.h"
#include "util/hash_table.h"
#include "util/limits.h"

HASH_TABLE_TYPE(count_row);
HASH_TABLE_TYPE(counted_error);

struct dproc {
	struct hash_link link;
	uint32_t pid;
	ct_generation generation; /* program whose counts it has; 0: nothing was counted yet */
	uid_t uid;
	uid_t owner; /* user whose share it uses */
	char comm[17];
	char *command; /* command line, blanks between the words */
	bool unread;   /* the command line is unknown: its name replaces it */
	struct labels labels;
	enum proc_level level;
	bool by_ctl;   /* the level was set by ctl, and stays */
	unsigned rule; /* line of the rule that set its level; 0: none */
	enum ct_proc_level kernel_level;
	uint64_t known_ns;	  /* when kernel_level was first set for this program */
	uint64_t changes;	  /* number of changes of kernel_level */
	uint64_t burst_until_ns;  /* sampled: traced until then; 0: not traced */
	uint64_t burst_next_ns;	  /* sampled: next burst of the timer */
	uint64_t burst_caused_ns; /* time of the last trigger of a burst; 0: never */
	uint64_t bursts;
	uint64_t gpus;	   /* bit N: NVML showed it on GPU N; 0: unknown */
	bool wants_inject; /* by a rule: see daemon_inject.c */
	char *inject;	   /* "requested", "entered", or why not; NULL: never tried */
	unsigned dossiers; /* bit N: enum dossier_reason N has had one of this program */
	struct metrics_target *target;
	struct mem_totals mem;
	struct live_stage live; /* with profiles.interval */
	struct count_row_table counts;
	struct counted_error_table errors;
	unsigned libs_look; /* number of the last library scan that read it (daemon_libs.c) */
	char *suffix; /* ,"container":"..." and so on, as in its lines; NULL: none, or no memory */
};
HASH_TABLE(dproc, pid);

/* A program that has ended, some of whose counts are still in a source: reading them for each
 * program would take too long. */
struct ended_program {
	struct hash_link link;
	struct ct_owner who;
	struct dproc *p; /* in no other table; NULL: counts belong to no target */
};
HASH_TABLE(ended_program, who);

/* Events that can trigger a burst or a dump. */
enum cause { CAUSE_ERROR, CAUSE_XID, CAUSE_SYNC, CAUSE_MEMORY };

#define DPROCS_REFUSED 256
#define DPROCS_RECENT  64
struct drefused {
	uint32_t pid;
	uint64_t ns;
};

/* Maximum memory of a count that was read from a source. */
#define DPROC_COUNT_SZ 1120

#define PLANNED_MAX	16
#define PLANNED_MEMBERS (PLANNED_MAX / 2)
struct planned_burst {
	uint64_t at_ns; /* since 1970: the wall clock may be set meanwhile */
	uint64_t ns;
	uint32_t pid; /* 0: all */
	bool root;    /* else a member of ctl.group planned it */
};

struct dprocs {
	struct dproc_table by_pid;
	struct dproc *recent[DPROCS_RECENT]; /* most recently used, by pid */
	struct ended_program_table ended;
	uint64_t read_ns; /* begin of the last read of counts */
	struct quota *quota;
	struct quota_owners users;
	struct drefused refused[DPROCS_REFUSED]; /* newest processes rejected by a limit */
	struct sources *sources;		 /* they count, and receive the levels */
	struct fnset *fns;
	struct metrics *metrics;
	const struct config *cfg;
	const char *root; /* root of the machine's files: see labels.h */
	bool by_process;  /* each process is its own target, not grouped by container and command */
	uint64_t made;	  /* created so far */
	uint64_t bursts;
	struct planned_burst planned[PLANNED_MAX];
	unsigned planned_cnt;
	/* A trigger seen in counts of a process at level metrics. amount: the duration of a
	 * synchronisation; of an error, its result if the context is unusable after it. */
	void (*caused)(void *ctx, struct dproc *p, enum cause why, uint64_t amount);
	/* Receives calls that were counted. Or NULL. */
	void (*counted)(void *ctx, struct dproc *p, uint32_t func_id, const struct ct_count *delta);
	void *ctx;
};

/* Returns whether a function's calls are recorded at level metrics, too, because counting would
 * lose their information. */
bool dprocs__is_always(const struct dprocs *ps, enum ct_redact redact, const struct api_fn *fn);
/* Creates it when it is new: reads its labels, finds its level. comm: used if it has ended already.
 * NULL: a limit was reached, or its user's share. */
struct dproc *dprocs__get(struct dprocs *ps, uint32_t pid, const char *comm);
struct dproc *dprocs__find(const struct dprocs *ps, uint32_t pid);
/* The process of an event; NULL: it has none, or was rejected by a limit. */
struct dproc *dprocs__of(struct dprocs *ps, const struct trace_event *ev);
/* The kernel's level for a level, outside of bursts. */
enum ct_proc_level dproc_kernel_level(enum proc_level level);
/* Returns whether each of its calls is recorded now. */
static inline bool dproc_is_traced(const struct dproc *p)
{
	return p->kernel_level == CT_PROC_TRACE;
}
/* It runs another program: name and level may change; its memory is freed. */
void dprocs__exec(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* It has ended: its counts are added to its target. generation 0: not known. */
void dprocs__remove(struct dprocs *ps, struct dproc *p, ct_generation generation);
/* A rejected process has ended: its counts belong to no target. */
void dprocs__take_unknown(struct dprocs *ps, uint32_t pid, ct_generation generation);
/* Removes processes whose end was not seen; gone gets each. Reads again what could not be read
 * before. False: that takes longer than a turn, and is to be continued in the next. */
bool dprocs__sweep(struct dprocs *ps, void (*gone)(void *ctx, uint32_t pid), void *ctx);
/* Applies a changed configuration. */
void dprocs__reload(struct dprocs *ps);
/* Set by ctl; level < 0: apply the rules. */
void dprocs__set_level(struct dprocs *ps, struct dproc *p, int level);
/* Starts a burst of ns. */
void dprocs__burst(struct dprocs *ps, struct dproc *p, uint64_t now_ns, uint64_t ns);
/* Starts a burst of process pid, or if pid is 0, of all processes at level metrics or sampled.
 * Returns the number of processes. */
uint64_t dprocs__burst_of(struct dprocs *ps, uint32_t pid, uint64_t now_ns, uint64_t ns);
/* Plans a burst. Returns false if PLANNED_MAX bursts are planned already, or PLANNED_MEMBERS by
 * members. */
bool dprocs__plan(struct dprocs *ps, const struct planned_burst *b);
/* The time of the next burst that is planned, on the clock of now_ns; UINT64_MAX: none. */
uint64_t dprocs__next_ns(const struct dprocs *ps, uint64_t now_ns);
/* Begins and ends bursts by the clock; true when this ended the last one. */
bool dprocs__clock(struct dprocs *ps, uint64_t now_ns);
bool dprocs__any_burst(const struct dprocs *ps);
/* Reads the counts of the sources, and first those of ended programs. */
void dprocs__read_counts(struct dprocs *ps);
/* Takes the counts of programs whose exit record was lost, after a few seconds. Those of unknown
 * processes are added to the others. */
void dprocs__take_left(struct dprocs *ps);
void dprocs__read_errors(struct dprocs *ps);
/* Sets changed live memory. */
void dproc__set_memory(struct dproc *p, const struct mem_totals *now);
void dprocs__free(struct dprocs *ps);

#endif /* DAEMON_PROCS_H */
