/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters of the daemon, and its output for Prometheus. Counts belong to a *target*: the processes
 * of one container, or those of one command outside containers. A process id is not a label, so
 * restarts make no new series. Counters of a target continue when its processes end.
 */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "ct_record.h"
#include "ct_count.h"
#include "gpus.h"
#include "labels.h"
#include "model/event.h"
#include "util/limits.h"
#include "util/time_budget.h"

struct metrics;
struct metrics_target;
struct out;

/* For the directory of rotating files. */
struct metrics_files {
	uint64_t lines, bytes;	/* written, before compression */
	uint64_t dropped;	/* lines dropped by limits or disk errors */
	uint64_t files;		/* finished files */
	uint64_t removed;	/* removed to stay within total */
	uint64_t taken, failed; /* by the command: files handled, failed attempts */
	uint64_t disk_bytes;	/* size of all files, at the last check */
	const char *error;	/* why nothing is written now; NULL: no error */
};

#define METRICS_GPU_LOST 3
extern const char *const metrics_gpu_lost[METRICS_GPU_LOST];

enum dossier_reason {
	DOSSIER_ERROR,
	DOSSIER_XID,
	DOSSIER_HANG,
	DOSSIER_REQUEST,
	DOSSIER_REASON_CNT
};
extern const char *const dossier_reason_name[DOSSIER_REASON_CNT];
/* Why none was made. */
enum dossier_refusal {
	DOSSIER_REFUSED_RATE,
	DOSSIER_REFUSED_USER,
	DOSSIER_REFUSED_BUSY,
	DOSSIER_REFUSED_DISK,
	DOSSIER_REFUSAL_CNT
};

/* Metrics that belong to no target. */
struct metrics_self {
	const char *version, *driver_version, *hostname;
	uint64_t now_ns;
	bool gpu_time, inject;
	uint64_t inproc; /* processes (trace.inject) */
	/* Lost GPU executions (trace.gpu_time), by metrics_gpu_lost[]. */
	uint64_t gpu_lost[METRICS_GPU_LOST], gpu_discarded_bytes;
	bool dcgm;			/* print DCGM's metrics under its names */
	enum ct_redact redact;		/* metrics of redacted values are omitted */
	double cpu_seconds, start_time; /* of the daemon; start since the epoch */
	double cost_seconds;		/* overhead of all calls */
	uint64_t rss_bytes, fds;
	uint64_t drops[CT_DROP_CNT];
	uint64_t full[QUOTA_CNT], used[QUOTA_CNT]; /* tables: rejected entries; size */
	uint64_t processes[4];			   /* traced now, by enum proc_level */
	uint64_t bursts;
	uint64_t hangs;
	unsigned hanging;
	uint64_t names_given_up; /* see util/demangle.h */
	struct metrics_files files;
	uint64_t recorder_lines, recorder_bytes, dumps;
	uint64_t profile_samples, profile_errors, profile_full;
	double profile_cpu_seconds, profile_programs_seconds;
	uint64_t otlp_sent, otlp_failed, otlp_dropped, otlp_queued, otlp_queued_bytes;
	uint64_t injections[2]; /* running processes: entered, refused */
	uint64_t dossiers[DOSSIER_REASON_CNT], dossiers_refused[DOSSIER_REFUSAL_CNT];
	uint64_t reloads, reload_failures;
	uint64_t http_closed;
	uint64_t reads_lost, reads_denied; /* see util/reader.h */
	uint64_t without_probes;	   /* libraries and periods */
	struct time_budget_stats work;
	double longest_turn; /* seconds */
	unsigned gpu_cnt;
	struct gpu gpus[GPUS_MAX];
};

/* Sums of one function. */
struct metrics_fn {
	uint64_t calls;
	uint64_t timed, total_ns, max_ns; /* of calls that returned */
	uint64_t errors;
};

/* The label of a result. All results without a name share one. */
const char *metrics_error_name(const struct api_fn *fn, int32_t code);

/* max_series: when that many are in use, targets without processes are dropped, oldest first. When
 * there are none, new targets are combined as "(others)". NULL: out of memory. */
struct metrics *metrics__new(uint64_t max_series);
void metrics__free(struct metrics *m);

/* The target of a process. Its process count grows with each call, and shrinks with each
 * metrics__put(). Never NULL. */
struct metrics_target *metrics__get(struct metrics *m, const struct labels *l, const char *comm);
/* The target of events without one. */
struct metrics_target *metrics__others(struct metrics *m);
void metrics__put(struct metrics *m, struct metrics_target *t);

/* An event of a traced process. */
void metrics__event(struct metrics *m, struct metrics_target *t, const struct trace_event *ev);
/* Adds counted calls of one function since the last time, and failed calls by code. */
void metrics__errors(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
		     int32_t result, uint64_t cnt);
void metrics__counts(struct metrics *m, struct metrics_target *t, const struct api_fn *fn,
		     const struct ct_count *delta);
/* Reads a target's sums so far: by function, and those derived from arguments. */
void metrics__each_fn(const struct metrics_target *t,
		      void (*fn)(void *ctx, const struct api_fn *api_fn,
				 const struct metrics_fn *f),
		      void *ctx);
uint64_t metrics__launches(const struct metrics_target *t);
uint64_t metrics__copied(const struct metrics_target *t);
/* Series rejected because of the limit. */
uint64_t metrics__rejected(const struct metrics *m);
/* The function is being removed: drops its series. */
void metrics__forget_fn(struct metrics *m, const struct api_fn *fn);
/* Live memory of a process, before and now: the target's is the sum over its processes. */
void metrics__memory(struct metrics_target *t, const struct mem_totals *before,
		     const struct mem_totals *now);

/* Prints Prometheus' text format 0.0.4. */
void metrics__print(const struct metrics *m, const struct metrics_self *self, struct out *o);

#endif /* METRICS_METRICS_H */
