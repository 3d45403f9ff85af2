/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF side, the sources, the model and the library files combined into one producer of events,
 * for a single trace and for the daemon.
 */
#ifndef TRACE_TRACER_H
#define TRACE_TRACER_H

#include "arbiter.h"
#include "hostinfo.h"
#include "libs.h"
#include "helper.h"
#include "source.h"

#include "attach/attach.h"
#include "model/model.h"
#include "model/trace.h"
#include "util/limits.h"

#include "ct_shm.h"

/* Where calls are recorded. */
enum probe {
	PROBE_AUTO = 0,
	PROBE_UPROBE, /* by the kernel: attach/ */
	PROBE_INJECT, /* by a library in the process: inject/ */
	PROBE_BOTH,   /* in-process, and by the kernel what that does not reach */
};

enum gpu_ctxsw { GPU_CTXSW_OFF = 0, GPU_CTXSW_ON, GPU_CTXSW_FORCE };
/* Interval of --gpu-stats samples. The driver averages its own values over a sixth of a second to a
 * second. */
#define GPU_STATS_MS	 1000
#define GPU_STATS_MIN_MS 50
#define GPU_STATS_MAX_MS 60000
/* Rate of --gpu-metrics samples. */
#define GPU_METRICS_HZ	   100
#define GPU_METRICS_MAX_HZ 10000

struct tracer_opts {
	enum probe probe;	   /* not PROBE_AUTO */
	uid_t inject_uid;	   /* PROBE_INJECT, PROBE_BOTH: user whose processes connect */
	bool late;		   /* the library enters running programs */
	const char *inject_name;   /* name by which they find us; NULL: chosen by the tracer */
	const char *inject_folder; /* as in inject_opts; or NULL */
	unsigned inject_slots_max, inject_counts_max;
	struct attach_opts attach; /* except fns and abi, which are the tracer's */
	bool kernel_args;	   /* in-process */
	enum ct_gpu_time gpu_time;
	/* On request, of running programs: source_inject__set_gpu(). OFF: never. */
	enum ct_gpu_time gpu_burst;
	unsigned stalls;	  /* a sample each 2^stalls cycles; 0: off */
	const char *cupti;	  /* path, or NULL */
	bool measure_entries;	  /* also the cost of calls seen at their entry only */
	bool wait;		  /* for libcuda to be loaded */
	bool xids;		  /* from the kernel log if needed, also without --kernel */
	enum gpu_ctxsw gpu_ctxsw; /* context switches of GPUs */
	unsigned gpu_stats_ms;	  /* interval of NVML samples; 0: none */
	unsigned gpu_metrics_hz;  /* rate of samples of hardware counters; 0: none */
	const char *program;	  /* the command's, for --gpu-metrics to find its CUPTI; or NULL */
	model_event_fn fn;
	void *ctx;
	/* Called before the events of a thread's first call, or of a process that maps a libcuda.
	 * Or NULL. */
	void (*on_use)(void *ctx, uint32_t pid, const char comm[16]);
	/* A function's id is reused for another. Or NULL. */
	void (*on_reuse)(void *ctx, unsigned func_id);
	/* As in struct model_opts; NULL: none. */
	range_fn on_range;
};

struct tracer {
	struct tracer_opts o;
	struct fnset *fns;
	struct quotas quotas; /* limits of what processes fill */
	struct attach *att;
	struct sources sources;
	struct model *model;
	struct libs libs;
	struct arbiter *arbiter; /* PROBE_BOTH */
	struct hostinfo hostinfo;
	struct nv_abi abi;	/* of the driver's version */
	struct helper nvml, pm; /* used if gpu_stats_ms or gpu_metrics_hz is set */
	struct attach_cost cost;
	struct trace_info info;
	struct trace_lib *info_libs;
	const char *degraded[32];
	char traced[512], not_traced[512], counted[512], entry_only[512], stacks[512], python[512];
	bool has_python;	  /* a Python with readable frames was found */
	char unknown_python[128]; /* last message about an unknown one */
	unsigned unknown_python_cnt;
	bool warned_stacks;	  /* reported that ranks' stacks cannot be read */
	char gpu_ctxsw[256];	  /* as in info; "": not requested */
	uint64_t ranks_looked_ns; /* last look at calls in flight */
	unsigned gpu_warned_cnt;  /* processes reported without GPU times */
	unsigned stalls_warned_cnt;
	bool warned_sigill;
};

/* t->fns is set and selected already. Reports its own errors. 0 or -errno. */
int tracer__open(struct tracer *t, const struct tracer_opts *o);
/* Returns whether any producer records system calls into the driver. */
bool tracer__sees_driver(const struct tracer *t);
/* --python: looks for a Python in the process, once. */
void tracer__find_python(struct tracer *t, pid_t pid);
/* The layout of the process's Python, for its stacks. NULL: it runs no known Python. */
const struct ct_python *tracer__python_of(struct tracer *t, uint32_t pid);
/* Fills the header's facts, with ts 0 now; the caller adds the command or the processes. */
void tracer__fill_info(struct tracer *t);
/* Adds the files attached so far to info. */
void tracer__fill_libs(struct tracer *t);
/* Drains all sources. */
void tracer__drain(struct tracer *t);
/* Drains all sources for at most max_ns, because processes may continue to write. */
void tracer__drain_for(struct tracer *t, uint64_t max_ns);
/* Drains all sources after sources__stop(), and adds calls in flight. */
void tracer__finish(struct tracer *t);
/* Returns the source's losses since the last call, and passes them to the model. */
uint64_t tracer__look_for_losses(struct tracer *t, struct source *s);
/* A process has ended: warns once if the way of attaching may have ended it. */
void tracer__exited(struct tracer *t, const struct trace_event *ev);
/* --gpu-time: reports its state in a process. */
struct ct_shm_gpu;
void tracer__gpu_state(struct tracer *t, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu);
/* --stalls: the same. cupti: why CUPTI does not work, if it does not. */
struct ct_shm_stalls;
void tracer__stalls_state(struct tracer *t, pid_t pid, const char *comm,
			  const struct ct_shm_stalls *st, const struct ct_shm_gpu *cupti);
/* Events about the tracer itself; op and name are constants. */
/* Reports, in a message and in the trace, when ranks wait for one that does not arrive
 * (model/ranks.h). */
void tracer__look_at_ranks(struct tracer *t, uint64_t now);
struct trace_event tracer_event(const char *op, const char *name, uint64_t now);
/* Counters of the end line. */
void tracer__fill_end(struct tracer *t, struct trace_end *end);
void tracer__close(struct tracer *t);

#endif /* TRACE_TRACER_H */
