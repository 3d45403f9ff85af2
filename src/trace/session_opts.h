/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Options of a trace. */
#ifndef TRACE_SESSION_OPTS_H
#define TRACE_SESSION_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "attach/probe/mechanism.h"
#include "decode/cuda.h"
#include "capture_range.h"
#include "sink/sink.h"
#include "tracer.h"

#define EXIT_USAGE 2

enum tristate { TRI_UNSET = 0, TRI_ON, TRI_OFF };

struct strv {
	const char **v;
	unsigned cnt;
};

#define SESSION_MAX_PIDS 256

struct session;
struct trace_event;

/* A view shown while a trace runs, instead of outputs and a summary. */
struct session_view {
	/* Called when the tracer is open and nothing is attached. 0 or -errno after reporting. */
	int (*open)(struct session_view *v, struct session *s);
	void (*event)(struct session_view *v, const struct trace_event *ev);
	/* As in struct tracer_opts. */
	void (*use)(struct session_view *v, uint32_t pid, const char comm[16]);
	void (*reuse)(struct session_view *v, unsigned func_id);
	/* Called often: does the work that is due, and returns the latest time of the next call. */
	uint64_t (*tick)(struct session_view *v, uint64_t now);
	/* Called when the trace has ended, after all events. */
	void (*end)(struct session_view *v);
	int fd;	     /* tick() is called when it is readable; -1: none */
	bool prints; /* JSON to stdout, where the output of a command would be in its way */
};

struct session_opts {
	/* target */
	pid_t pids[SESSION_MAX_PIDS];
	unsigned pid_cnt;
	char **argv; /* command, NULL-terminated; NULL when none */
	int argc;
	bool follow;	     /* trace children too; default true, --no-follow */
	bool wait;	     /* wait for libcuda to be loaded; default true, --no-wait */
	uint64_t wait_ns;    /* --wait, after the end of the command's first process; UINT64_MAX: no
			      * limit */
	const char *libcuda; /* --libcuda PATH */
	bool stop_on_load;   /* -p: stop processes that map a new libcuda until it is attached */
	bool force;	     /* --force: also files that others may write to */
	const char *user;    /* --user NAME or number */
	/* outputs */
	struct strv outputs[SINK_CNT]; /* of each sink: FILE or "-" */
	uint64_t max_file;	       /* bytes of one file; 0: no limit */
	enum tristate summary;	       /* unset: when stderr is a terminal */
	bool full_summary;	       /* --summary=full */
	bool quiet;
	bool json; /* format of the summary */
	/* what to trace */
	struct strv select;	       /* each -e, in order */
	enum api_detail detail;	       /* the last of --detail and --all */
	struct strv count, entry_only; /* sets, in order: the last one applies */
	struct strv stack, python;     /* --stack, --python: same form */
	double max_overhead;	   /* share of the busiest thread's time, 0.01 is 1 %; 0: no limit
				    */
	bool kernel;		   /* --kernel: system calls into the NVIDIA driver too */
	enum tristate kernel_args; /* --kernel-args; unset: where they are recorded in-process */
	bool nvtx;		   /* --nvtx: ranges and marks */
	bool torch;		   /* --torch: operators, nodes and the allocator of PyTorch */
	enum gpu_ctxsw gpu_ctxsw;  /* --gpu-ctxsw */
	bool sched;		   /* --sched: off-CPU time, GPU interrupts */
	enum ct_gpu_time gpu_time; /* --gpu-time */
	unsigned stalls;	   /* --stalls: a sample each 2^stalls cycles; 0: off */
	const char *cupti;	   /* --cupti PATH */
	bool accept_cupti;	   /* --yes: CUPTI in running programs */
	unsigned gpu_stats_ms;	   /* --gpu-stats: interval of samples; 0: none */
	unsigned gpu_metrics_hz;   /* --gpu-metrics: rate of samples; 0: none */
	/* Wall time at which the trace begins; period of whose multiples it begins at one; 0: now.
	 */
	uint64_t start_at_ns, start_every_ns;
	uint64_t duration_ns;	   /* 0: none */
	uint64_t start_after_ns;   /* --start-after; 0: none */
	enum capture_kind capture; /* --capture-range */
	const char *capture_name;  /* CAPTURE_NVTX */
	uint64_t max_events;	   /* 0: none */
	uint64_t min_duration_ns;
	uint64_t hang_after_ns; /* --hang-after; 0: waits are not watched */
	/* tuning */
	uint64_t buffer_sz; /* ring buffer in bytes: a power of two, 64 KiB to 1 GiB */
	int format_threads; /* threads; -1: chosen from the number of processors */
	enum probe probe;
	/* --collect: the library in a program started us. Listen by this name while the process
	 * that chose it, and those that connect, exist. NULL: not in this mode. */
	const char *collect;
	pid_t collect_for;
	enum mechanism mechanism;
	enum nv_probe kernel_probe;
	enum ct_redact redact;	   /* --no-strings, --no-args */
	bool sandbox;		   /* drop privileges that are not needed; default true, --no-
				    * sandbox */
	struct session_view *view; /* or NULL */
};

#endif /* TRACE_SESSION_OPTS_H */
