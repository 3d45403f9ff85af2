/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes and threads of the trace, and their state. */
#ifndef MODEL_PROC_H
#define MODEL_PROC_H

#include "capture.h"
#include "comms.h"
#include "dnn.h"
#include "gpu.h"
#include "kernel.h"
#include "mem.h"
#include "operators.h"
#include "ranges.h"
#include "stacks.h"

#include "util/hash_table.h"

/* Removes rows of processes or threads that have ended. A row found dead is removed at a sweep for
 * a later record: until then its last records may still arrive. */
struct sweep {
	unsigned at; /* number of rows at which the next sweep is due */
	uint64_t ns; /* when the last sweep was */
};

struct thread {
	struct hash_link link;
	uint32_t tid;
	char comm[THREAD_COMM_SZ + 1];
	bool is_named;			   /* comm is known; it may be "" */
	bool was_gone;			   /* found dead in the last sweep */
	struct range *range;		   /* --nvtx: the innermost range; NULL: none */
	struct thread_operators operators; /* --torch */
	struct gpu_calls *gpu_calls;	   /* --gpu-time; NULL: none so far */
	struct samples *samples;	   /* NULL: none so far */
	struct nccl_thread *nccl;	   /* NULL: it does not call NCCL */
};
HASH_TABLE(thread, tid);

struct proc {
	struct hash_link link;
	uint32_t pid;
	char comm[THREAD_COMM_SZ + 1]; /* of its main thread; "": unknown */
	bool ended, tidied, was_gone;
	bool has_job; /* its place in a job was looked for */
	struct sweep threads_look;
	struct thread_table threads;
	struct quota_share threads_share, samples_share;
	struct handles handles;	  /* kernel names */
	struct handles gpu_names; /* the same, by the IDs of --gpu-time */
	uint64_t gpu_since_ns;	  /* model__gpu_since(); 0: unknown */
	struct mem mem;
	struct capture_set captures;
	struct proc_ranges *ranges; /* --nvtx; NULL: none so far */
	struct comms comms;
	struct dnn *dnn;	    /* NULL: no call of cuDNN so far */
	struct proc_stacks *stacks; /* NULL: none so far */
	struct proc_stalls *stalls; /* NULL: none so far */
};
HASH_TABLE(proc, pid);

/* The last record of a process may precede those of its other threads, which end on other CPUs. So
 * this many ended processes are kept. */
#define PROCS_ENDED 16

/* Cache of the last threads, by the lowest bits of their IDs: the same threads call again and
 * again. */
#define PROCS_RECENT 64
struct recent_thread {
	struct proc *p;
	struct thread *t;
};

struct procs {
	struct proc_table by_pid;
	struct proc *recent[PROCS_RECENT];
	struct recent_thread recent_threads[PROCS_RECENT];
	struct proc *ended[PROCS_ENDED];
	unsigned ended_next;
	struct sweep look;
	bool live;
	bool kernel_args;
	uint64_t record_ns; /* time of the current record */
	struct quotas *quotas;
	struct kernel_names *names;
	struct gpu_join gpu;
};

/* Returns NULL if unknown. */
struct proc *procs__find(struct procs *ps, uint32_t pid);
/* Returns the process or thread, and creates it if needed. At the limit it drops others, whose
 * pointers become invalid. Returns NULL only if out of memory. */
struct proc *procs__get_any(struct procs *ps, uint32_t pid);
struct thread *proc__any_thread(struct procs *ps, struct proc *p, uint32_t tid);
void proc__set_comm(struct proc *p, struct thread *t, const char comm[THREAD_COMM_SZ]);
/* Returns the name of a thread. If t is NULL, or the thread ended before its name was read, returns
 * the name of its process. NULL: neither is known. */
static inline const char *proc__comm(const struct proc *p, const struct thread *t)
{
	if (t && t->is_named)
		return t->comm;
	return p && p->comm[0] ? p->comm : NULL;
}
/* Clears the state of p, because its ID belongs to another program. */
void procs__renew(struct procs *ps, struct proc *p);
/* Marks p as ended. Its state is dropped when further processes have ended, or when its ID is
 * reused. */
void procs__end(struct procs *ps, struct proc *p);
/* Removes the processes that had ended when this was last called. Returns their number. */
unsigned procs__compact(struct procs *ps);
void procs__remove(struct procs *ps, struct proc *p);
void procs__free(struct procs *ps);

static inline struct proc *procs__get(struct procs *ps, uint32_t pid)
{
	struct proc *p = ps->recent[pid % PROCS_RECENT];

	return p && p->pid == pid ? p : procs__get_any(ps, pid);
}

static inline struct thread *proc__thread(struct procs *ps, struct proc *p, uint32_t tid)
{
	const struct recent_thread *recent = &ps->recent_threads[tid % PROCS_RECENT];

	return recent->p == p && recent->t->tid == tid ? recent->t : proc__any_thread(ps, p, tid);
}

#endif /* MODEL_PROC_H */
