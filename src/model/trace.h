/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of a trace as a whole: at its start (header) and at its end. */
#ifndef MODEL_TRACE_H
#define MODEL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_record.h"
#include "util/quota.h"

struct api_fn;

/* Version of the JSONL form (docs/SCHEMA.md): raised when a reader must know of a change. */
#define TRACE_SCHEMA 2

struct trace_lib {
	const char *path;
	const char *build_id; /* hexadecimal, or "" */
	unsigned lib_id;
	unsigned attached_cnt; /* functions */
};

/* What a trace of a report that is not the first, or of the time of another, has added to its
 * process ids, once more for each trace: above every process id that Linux gives. */
#define TRACE_PID_STEP 10000000

/* How the time of a saved trace became that of the first one that is read with it. */
enum trace_alignment {
	TRACE_FIRST,
	TRACE_SAME_CLOCK, /* of the same boot: CLOCK_MONOTONIC is the same to the nanosecond */
	TRACE_BY_WALL,	  /* of another machine or boot: as well as their wall clocks agree */
	TRACE_BEHIND,	  /* it has nothing to do with it: right behind what came before */
	TRACE_ALIGN_CNT
};

struct trace_info {
	const char *version;	 /* of cudatrace */
	const char *const *argv; /* traced command; NULL with -p or system-wide */
	unsigned argc;
	const uint32_t *pids; /* -p */
	unsigned pid_cnt;
	const char *hostname, *kernel, *machine;
	const char *driver_version;   /* kernel driver; "" when not loaded */
	int cuda_version;	      /* 1000 * major + 10 * minor; 0 when unknown */
	const struct trace_lib *libs; /* attached before the first event; later ones are events */
	unsigned lib_cnt;
	const char *traced, *not_traced;  /* fnset__describe() */
	const char *counted, *entry_only; /* fnset__describe_mark(); "": none */
	const char *stacks;		  /* the same, of --stack */
	const char *python;		  /* and of --python */
	const char *mechanism;		  /* "uprobe.session", "uprobe.multi", "uprobe" */
	const char *kernel_probe;	  /* --kernel: "kprobe.multi", "fentry", ...; else NULL */
	const char *gpu_time;		  /* --gpu-time: "graphs", "nodes"; else NULL */
	const char *gpu_ctxsw;		  /* --gpu-ctxsw: "on", or why not; else NULL */
	const char *redacted;		  /* "strings", "arguments": not read; NULL: nothing */
	const char *const *degraded;	  /* missing capabilities: what is lost */
	unsigned degraded_cnt;
	double probe_cost_ns; /* one traced call costs its thread this much, measured at start */
	uint64_t base_ns;     /* CLOCK_MONOTONIC of ts 0 */
	uint64_t wall_ns;    /* CLOCK_REALTIME at the same moment, since the epoch, as the clock was
				set when the header was written */
	const char *boot_id; /* of the kernel that ran; NULL or "": not known */
	unsigned segment;    /* of a trace in several files: how many come before this one, */
	uint64_t segment_ns; /* and when the one before ended */
	/* Of several that are read as one. */
	unsigned number; /* from 0, in the order in which they begin */
	unsigned clock;	 /* times of those that have the same may be compared */
	enum trace_alignment place;
	uint32_t pid_add; /* to its process and thread ids */
};

/* Calls of one function that were counted and not recorded. */
struct trace_count {
	const struct api_fn *fn;
	uint64_t calls, errors; /* that returned; of those, failed */
	uint64_t entered;	/* whose return was not looked at: their number is all there is */
	uint64_t unfinished, abandoned;
	uint64_t total_ns, max_ns; /* of calls */
};

/* What of the cost is one function's. */
struct trace_fn_cost {
	const struct api_fn *fn;
	uint64_t ns;
};
#define TRACE_DEAR_MAX 5

/* --gpu-time: what is known of what GPUs executed, and what is not. */
struct trace_gpu {
	bool on;
	uint64_t launches_timed, launches_untimed;
	uint64_t no_call;   /* executions whose call is not in the trace */
	uint64_t records;   /* of CUPTI */
	uint64_t dropped;   /* by CUPTI: no room */
	uint64_t untimed;   /* records without a time that makes sense */
	uint64_t lost;	    /* no room in our ring */
	uint64_t discarded; /* bytes: no buffer for CUPTI */
	uint64_t clock_error_ns, clock_steps;
	uint64_t late; /* of the daemon's file: as a sink's late_cnt */
};

/* --python: calls whose frames were asked for. */
struct trace_python {
	bool on;
	uint64_t calls;	 /* that have frames */
	uint64_t early;	 /* before it was known whether their process has a Python */
	uint64_t cut;	 /* there were more frames */
	uint64_t broken; /* frames behind one that could not be read are missing */
	uint64_t unread; /* there is one whose names could not be read */
};

/* --nvtx: what became of calls of NVTX, which are no lines. */
struct trace_nvtx {
	bool on;
	uint64_t calls;
	uint64_t ranges, marks; /* those shorter than --min-duration, too */
	uint64_t unfinished;	/* of the ranges */
	uint64_t unbalanced;	/* ends without a beginning */
	uint64_t unnamed;	/* beginnings and marks whose text is not known */
	uint64_t too_many;	/* beginnings that there was no room for */
};

/* --torch: what became of calls that say what PyTorch does, which are no lines. */
struct trace_torch {
	bool on;
	uint64_t calls;
	uint64_t operators, nodes; /* those shorter than --min-duration, too */
	uint64_t unfinished;	   /* of both: nothing was seen after them in their thread */
	uint64_t unnamed;	   /* of both: what they are called is not known */
	uint64_t too_many;	   /* in each other: no lines */
	uint64_t allocs, frees, ooms;
};

/* Why a file ends that another follows. */
#define TRACE_GOES_ON "max-file"
/* Why a file of the daemon ends. */
#define TRACE_ROTATED "rotated"
#define TRACE_STOPPED "stopped"

struct trace_end {
	bool goes_on;	       /* in another file: what is said is of this one */
	uint64_t end_ns;       /* CLOCK_MONOTONIC */
	const char *reason;    /* "command exited", "interrupted", "duration", ... */
	uint64_t type_cnt[48]; /* events written by enum event_type */
	uint64_t event_cnt;
	uint64_t call_cnt; /* EVENT_CALL among them */
	uint64_t drops[CT_DROP_CNT];
	uint64_t stats[CT_STAT_CNT];
	uint64_t bad_record_cnt;   /* raw records that made no sense */
	uint64_t unknown_drop_cnt; /* of a saved trace: drops that this program does not know */
	/* --kernel: objects of the driver that found the table of handles full, and commands about
	 * objects whose allocation was not seen */
	bool has_objects;
	uint64_t object_refused_cnt, object_unknown_cnt;
	struct trace_gpu gpu;
	struct trace_python python;
	struct trace_nvtx nvtx;
	struct trace_torch torch;
	uint64_t full[QUOTA_CNT]; /* what found a table of the tracer's full */
	double probe_cost_ns;	  /* of a recorded call */
	uint64_t cost_ns;	  /* of all calls together */
	double cost_share; /* of all threads together, as a part of the time of one thread: 0.01 is
			      1 % */
	double max_thread_overhead; /* of its busiest second, of the thread whose that was; 0: not
				     * known
				     */
	uint32_t max_overhead_tid;
	struct trace_fn_cost dear[TRACE_DEAR_MAX]; /* what costs most, most first */
	unsigned dear_cnt;
	uint64_t detail_low_saving_ns; /* of cost_ns: what --detail=low would save */
	const char *unseen;	       /* why calls may be missing that nobody counted; or NULL */
	const char *not_traced;
	double count_cost_ns;		  /* cost of a counted call */
	const struct trace_count *counts; /* most calls first */
	unsigned count_cnt;
	unsigned level_cnt; /* --max-overhead: how often a function's level was changed */
	/* Why an output could not take everything, or NULL; lines that are missing in it then. */
	const char *write_error;
	uint64_t lines_lost;
	/* Outputs that others deleted, moved or truncated. No end line has them: where one could
	 * be, it is gone with the file. */
	uint64_t output_gone_cnt;
};

const char *drop_name(enum ct_drop d);
/* All that is missing but context switches: where it is, numbers of calls are too low, and a larger
 * --buffer-size helps. */
uint64_t trace_lost(const struct trace_end *end);

#endif /* MODEL_TRACE_H */
