/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The BPF side, the sources, the model and the library files as one thing that gives events: what a
 * single trace and the daemon have in common.
 */
#ifndef TRACE_TRACER_H
#define TRACE_TRACER_H

#include "arbiter.h"
#include "hostinfo.h"
#include "libs.h"
#include "nvml_program.h"
#include "source.h"

#include "attach/attach.h"
#include "model/model.h"
#include "model/trace.h"
#include "util/quota.h"

#include "ct_shm.h"

/* Where calls are seen. */
enum probe {
	PROBE_AUTO = 0,
	PROBE_UPROBE, /* by the kernel: attach/ */
	PROBE_INJECT, /* by a library in the process: inject/ */
	PROBE_BOTH,   /* so, and by the kernel what that does not reach */
};

enum gpu_ctxsw { GPU_CTXSW_OFF = 0, GPU_CTXSW_ON, GPU_CTXSW_FORCE };
/* Between samples of --gpu-stats. The driver's own figures are of a sixth of a second to a second.
 */
#define GPU_STATS_MS	 1000
#define GPU_STATS_MIN_MS 50
#define GPU_STATS_MAX_MS 60000

struct tracer_opts {
	enum probe probe;	   /* not PROBE_AUTO */
	uid_t inject_uid;	   /* PROBE_INJECT, PROBE_BOTH: processes of this user, */
	const char *inject_name;   /* who find us by this name; NULL: the tracer chooses it */
	const char *inject_folder; /* as inject_opts has it; or NULL */
	unsigned inject_slots_max, inject_counts_max;
	struct attach_opts attach; /* fns and abi are the tracer's */
	enum ct_gpu_time gpu_time;
	const char *cupti;	  /* path, or NULL */
	bool measure_entries;	  /* also what calls cost of which only the entry is seen */
	bool wait;		  /* for libcuda to be loaded */
	bool xids;		  /* from the kernel log if need be, without --kernel, too */
	enum gpu_ctxsw gpu_ctxsw; /* context switches of GPUs */
	unsigned gpu_stats_ms;	  /* NVML is asked each so many; 0: it is not */
	model_event_fn fn;
	void *ctx;
	/* A thread makes its first call, or a process maps a libcuda: before its events. Or NULL.
	 */
	void (*on_use)(void *ctx, uint32_t pid, const char comm[16]);
	/* A function's id becomes another's. Or NULL. */
	void (*on_reuse)(void *ctx, unsigned func_id);
};

struct tracer {
	struct tracer_opts o;
	struct fnset *fns;
	struct quotas quotas; /* of what processes fill */
	struct attach *att;
	struct sources sources;
	struct model *model;
	struct libs libs;
	struct arbiter *arbiter; /* PROBE_BOTH */
	struct hostinfo hostinfo;
	struct nv_abi abi;	  /* the driver's version */
	struct nvml_program nvml; /* gpu_stats_ms */
	struct attach_cost cost;
	struct trace_info info;
	struct trace_lib *info_libs;
	const char *degraded[32];
	char traced[512], not_traced[512], counted[512], entry_only[512], stacks[512], python[512];
	bool has_python;	  /* one was found whose frames can be read */
	char unknown_python[128]; /* what was said last of one that is not known */
	unsigned unknown_python_cnt;
	bool said_stacks;	  /* that those of ranks cannot be read */
	char gpu_ctxsw[256];	  /* as in info; "": not asked for */
	uint64_t ranks_looked_ns; /* when calls in flight were last looked at */
	unsigned gpu_warned_cnt;  /* processes that have no GPU times */
	bool said_sigill;
};

/* t->fns is there already, chosen from. Reports its own errors. 0 or -errno. */
int tracer__open(struct tracer *t, const struct tracer_opts *o);
/* Are system calls into the driver seen, by whomever? */
bool tracer__sees_driver(const struct tracer *t);
/* --python: looks for a Python in the process, if that was not done. */
void tracer__find_python(struct tracer *t, pid_t pid);
/* What a header says, with ts 0 now; the command or the processes are the caller's. */
void tracer__fill_info(struct tracer *t);
/* The files that are attached by now go to info. */
void tracer__fill_libs(struct tracer *t);
/* Takes everything that the sources have. */
void tracer__drain(struct tracer *t);
/* The same, but of who goes on writing no more than can be taken in a moment. */
void tracer__drain_for(struct tracer *t, uint64_t max_ns);
/* The same after sources__stop(), and calls in flight. */
void tracer__finish(struct tracer *t);
/* How much a source has lost since this was last asked: the model gets to know it. */
uint64_t tracer__look_for_losses(struct tracer *t, struct source *s);
/* A process has ended: says it once when the way of attaching may have ended it. */
void tracer__exited(struct tracer *t, const struct trace_event *ev);
/* --gpu-time: what became of it in a process. */
struct ct_shm_gpu;
void tracer__gpu_state(struct tracer *t, pid_t pid, const char *comm, const struct ct_shm_gpu *gpu);
/* What the tracer says of itself; op and name are constants. */
/* Says so, now and in the trace, when ranks wait for one that does not come (model/ranks.h). */
void tracer__look_at_ranks(struct tracer *t, uint64_t now);
struct trace_event tracer_event(const char *op, const char *name, uint64_t now);
/* Counters of the end line. */
void tracer__fill_end(struct tracer *t, struct trace_end *end);
void tracer__close(struct tracer *t);

#endif /* TRACE_TRACER_H */
