/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Data on a trace as a whole: at its start (header) and at its end. */
#ifndef MODEL_TRACE_H
#define MODEL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_record.h"
#include "util/limits.h"

struct api_fn;

/* Version of the JSONL format (docs/SCHEMA.md): raised when readers must handle a change. */
#define TRACE_SCHEMA 2

struct trace_lib {
	const char *path;
	const char *build_id; /* hexadecimal, or "" */
	unsigned lib_id;
	unsigned attached_cnt; /* number of functions */
};

/* The process IDs of trace N of a report are raised by N times this, which is above every process
 * ID of Linux. A trace that continues one of the same host and clock keeps that trace's offset. */
#define TRACE_PID_STEP 10000000

/* How the times of a saved trace are aligned with the first trace that is read with it. */
enum trace_alignment {
	TRACE_FIRST,
	TRACE_SAME_CLOCK,     /* same boot: CLOCK_MONOTONIC is the same to the nanosecond */
	TRACE_BY_COLLECTIVES, /* another machine: within clock_error_ns, from its ranks' collectives
			       */
	TRACE_BY_WALL,	      /* another machine or boot: as accurate as their wall clocks */
	TRACE_BEHIND,	      /* unrelated: directly after the previous trace */
	TRACE_ALIGN_CNT
};

struct trace_info {
	const char *version;	 /* version of cudatrace */
	const char *const *argv; /* traced command; NULL with -p or system-wide */
	unsigned argc;
	const uint32_t *pids; /* -p */
	unsigned pid_cnt;
	const char *hostname, *kernel, *machine;
	const char *driver_version;   /* kernel driver; "" when not loaded */
	int cuda_version;	      /* 1000 * major + 10 * minor; 0 if unknown */
	const struct trace_lib *libs; /* attached before the first event; later ones are events */
	unsigned lib_cnt;
	const char *traced, *not_traced;  /* fnset__describe() */
	const char *counted, *entry_only; /* fnset__describe_mark(); "": none */
	uint64_t min_duration_ns;	  /* --min-duration */
	const char *stacks;		  /* the same, for --stack */
	const char *python;		  /* the same, for --python */
	const char *mechanism;		  /* "uprobe.session", "uprobe.multi", "uprobe" */
	const char *kernel_probe;	  /* --kernel: "kprobe.multi", "fentry", ...; else NULL */
	const char *gpu_time;		  /* --gpu-time: "graphs", "nodes"; else NULL */
	uint64_t stalls;		  /* --stalls: cycles of the period; else 0 */
	const char *gpu_ctxsw;		  /* --gpu-ctxsw: "on", or why not; else NULL */
	const char *redacted;		  /* "strings" or "arguments"; NULL: nothing */
	const char *const *degraded;	  /* missing kernel features and their consequences */
	unsigned degraded_cnt;
	double probe_cost_ns; /* overhead of one traced call for its thread, measured at start */
	uint64_t base_ns;     /* CLOCK_MONOTONIC of ts 0 */
	uint64_t begin_ns;    /* from base_ns to the beginning of the file */
	uint64_t wall_ns;     /* CLOCK_REALTIME at ts 0, as set when the header was written */
	const char *boot_id;  /* boot ID of the kernel; NULL or "": unknown */
	unsigned segment;     /* of a trace in several files: number of earlier files, */
	uint64_t segment_ns;  /* and the end of the previous file */
	/* For traces that are read as one: */
	unsigned number; /* from 0, in the order of their start */
	unsigned clock;	 /* traces with the same clock have comparable times */
	enum trace_alignment place;
	/* Its times are off by at most this; UINT64_MAX: unknown. */
	uint64_t clock_error_ns;
	/* TRACE_BY_COLLECTIVES: how far its wall clock was ahead of the reference's at first, and
	 * by how much it gained per time; how often it was set; number of collectives compared. */
	int64_t clock_ahead_ns;
	double clock_rate;
	unsigned clock_steps;
	uint64_t clock_collectives;
	uint32_t pid_add; /* added to its process and thread IDs */
};

/* Calls of one function that were counted and not recorded. */
struct trace_count {
	const struct api_fn *fn;
	uint64_t calls, errors; /* calls that returned; failed calls among them */
	uint64_t entered;	/* calls counted at their entry: only their number is known */
	uint64_t unfinished, abandoned;
	uint64_t total_ns, max_ns; /* durations of calls */
};

/* One function's part of the overhead. */
struct trace_fn_cost {
	const struct api_fn *fn;
	uint64_t ns;
};
#define TRACE_COSTLY_MAX 5

/* --gpu-time: counts of GPU executions, known and missing. */
struct trace_gpu {
	bool on;
	uint64_t launches_timed, launches_untimed;
	uint64_t no_call;   /* executions whose call is not in the trace */
	uint64_t records;   /* records from CUPTI */
	uint64_t dropped;   /* dropped by CUPTI: its buffers were full */
	uint64_t untimed;   /* records without a valid time */
	uint64_t lost;	    /* our ring was full */
	uint64_t discarded; /* in bytes: CUPTI had no buffer */
	uint64_t clock_error_ns, clock_steps;
	uint64_t late; /* in a file of the daemon: as a sink's late_cnt */
};

/* --stalls: samples, as CUPTI counts them, and missing ones. */
struct trace_stalls {
	bool on;
	uint64_t samples;
	uint64_t dropped;      /* by the hardware */
	uint64_t unattributed; /* without a function */
	uint64_t refused;      /* tables of a process were full: they have no instruction */
	uint64_t lost;	       /* our ring was full */
	uint64_t contexts;     /* contexts that were not sampled */
	uint64_t no_code;      /* functions whose machine code could not be read */
	/* 1 if it happened in any process */
	uint64_t stopped; /* CUPTI's buffer was full */
	uint64_t shared;  /* another sampler, or an error */
};

/* --python: counts of calls for which frames were requested. */
struct trace_python {
	bool on;
	uint64_t calls;	 /* that have frames */
	uint64_t early;	 /* calls before the process was checked for Python */
	uint64_t cut;	 /* calls with more frames than are kept */
	uint64_t broken; /* calls without the frames outside one that could not be read */
	uint64_t unread; /* calls with a frame whose names could not be read */
};

/* --nvtx: counts of calls of NVTX, which have no lines. */
struct trace_nvtx {
	bool on;
	uint64_t calls;
	uint64_t ranges, marks; /* including those shorter than --min-duration */
	uint64_t unfinished;	/* ranges that did not end */
	uint64_t unbalanced;	/* ends without a start */
	uint64_t unnamed;	/* starts and marks whose text is unknown */
	uint64_t too_many;	/* starts rejected at the limit */
};

/* --torch: counts of calls that report what PyTorch does, which have no lines. */
struct trace_torch {
	bool on;
	uint64_t calls;
	uint64_t operators, nodes; /* including those shorter than --min-duration */
	uint64_t unfinished;	   /* of both: no later event in their thread */
	uint64_t unnamed;	   /* of both: unknown names */
	uint64_t too_many;	   /* nested too deeply: no lines */
	uint64_t allocs, frees, ooms;
};

/* Reason for the end of a file that another one follows. */
#define TRACE_GOES_ON "max-file"
/* Reasons for the end of a file of the daemon. */
#define TRACE_ROTATED "rotated"
#define TRACE_STOPPED "stopped"

struct losses;

struct trace_end {
	bool goes_on;	       /* the trace continues in another file */
	uint64_t end_ns;       /* CLOCK_MONOTONIC */
	const char *reason;    /* "command exited", "interrupted", "duration", ... */
	uint64_t type_cnt[48]; /* events written, by enum event_type */
	uint64_t event_cnt;
	uint64_t call_cnt; /* number of EVENT_CALL among them */
	uint64_t drops[CT_DROP_CNT];
	uint64_t stats[CT_STAT_CNT];
	uint64_t bad_record_cnt;   /* invalid raw records */
	uint64_t buffer_sz;	   /* of the ring buffers (--buffer-size); 0: unknown */
	uint64_t unknown_drop_cnt; /* of a saved trace: drops of kinds unknown to this program */
	/* --kernel: driver objects rejected because the table of handles was full, and commands on
	 * objects whose allocation was not recorded */
	bool has_objects;
	uint64_t object_refused_cnt, object_unknown_cnt;
	struct trace_gpu gpu;
	struct trace_stalls stalls;
	struct trace_python python;
	struct trace_nvtx nvtx;
	struct trace_torch torch;
	uint64_t full[QUOTA_CNT];   /* number of rejections by each full table of the tracer */
	double probe_cost_ns;	    /* overhead of a recorded call */
	uint64_t cost_ns;	    /* overhead of all calls together */
	double cost_share;	    /* in the time of one thread: 0.01 is 1 % */
	double max_thread_overhead; /* in the busiest second of a thread; 0: unknown */
	uint32_t max_overhead_tid;
	struct trace_fn_cost costly[TRACE_COSTLY_MAX]; /* most overhead first */
	unsigned costly_cnt;
	uint64_t detail_low_saving_ns; /* part of cost_ns that --detail=low would save */
	uint64_t continued_cnt;	       /* processes of the command that outlived the trace */
	const char *unseen;	       /* why uncounted calls may be missing; NULL or "" */
	const char *not_traced;
	double count_cost_ns;		  /* overhead of a counted call */
	const struct trace_count *counts; /* most calls first */
	unsigned count_cnt;
	unsigned level_cnt; /* --max-overhead: number of level changes */
	/* Why an output could not be written completely, or NULL; lines_lost: number of lines
	 * missing in it. */
	const char *write_error;
	uint64_t lines_lost;
	/* Outputs that other programs deleted, moved or truncated. No end line has them, because
	 * it would be in such a file. */
	uint64_t output_gone_cnt;
	/* All that is missing, for outputs that have only this end: with the losses that events and
	 * the reader of a saved trace report. NULL: what the other members contain. */
	const struct losses *lost;
};

const char *drop_name(enum ct_drop d);
/* Returns the number of all losses except context switches. If it is not 0, numbers of calls are
 * too low, and a larger --buffer-size helps. */
uint64_t trace_lost(const struct trace_end *end);

#endif /* MODEL_TRACE_H */
