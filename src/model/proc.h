/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes and threads of the trace, and what is known of each. */
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

#include <uthash.h>

/* Rows of what is gone go when a later record than the look that found it gone has come: its own
 * last ones were on their way until then. */
struct sweep {
	unsigned at; /* with so many rows it is time for the next */
	uint64_t ns; /* when the last was */
};

struct thread {
	uint32_t tid;
	char comm[THREAD_COMM_SZ + 1];
	bool is_named;			   /* comm is known; it may be "" */
	bool was_gone;			   /* at the last look */
	struct range *range;		   /* --nvtx: the innermost; NULL: none */
	struct thread_operators operators; /* --torch */
	struct gpu_calls *gpu_calls;	   /* --gpu-time; NULL: none so far */
	struct nccl_thread *nccl;	   /* NULL: it calls nothing of NCCL */
	UT_hash_handle hh;
};

struct proc {
	uint32_t pid;
	char comm[THREAD_COMM_SZ + 1]; /* of its main thread; "": not known */
	bool ended, tidied, was_gone;
	struct sweep threads_look;
	struct thread *threads; /* by tid */
	struct quota_share threads_share;
	struct handles handles;	  /* kernel names */
	struct handles gpu_names; /* the same, by the numbers of --gpu-time */
	struct mem mem;
	struct capture_set captures;
	struct proc_ranges *ranges; /* --nvtx; NULL: none so far */
	struct comms comms;
	struct dnn *dnn;	    /* NULL: nothing of cuDNN so far */
	struct proc_stacks *stacks; /* NULL: none so far */
	UT_hash_handle hh;
};

/* The last record of a process may come before those of its other threads, which end on other
 * processors: so many are remembered. */
#define PROCS_ENDED 16

/* The same threads call again and again: those that did last, by the last bits of their ids. */
#define PROCS_RECENT 64
struct recent_thread {
	struct proc *p;
	struct thread *t;
};

struct procs {
	struct proc *by_pid;
	struct proc *recent[PROCS_RECENT];
	struct recent_thread recent_threads[PROCS_RECENT];
	struct proc *ended[PROCS_ENDED];
	unsigned ended_next;
	struct sweep look;
	bool live;
	uint64_t record_ns; /* time of the record at hand */
	struct quotas *quotas;
	struct kernel_names *names;
	struct gpu_join gpu;
};

/* NULL: not known. */
struct proc *procs__find(struct procs *ps, uint32_t pid);
/* Makes what is not there yet, forgetting others when there are too many: their pointers are void
 * then. NULL only when memory is out. */
struct proc *procs__get_any(struct procs *ps, uint32_t pid);
struct thread *proc__any_thread(struct procs *ps, struct proc *p, uint32_t tid);
void proc__set_comm(struct proc *p, struct thread *t, const char comm[THREAD_COMM_SZ]);
/* The name of a thread; t NULL, or the thread ended before its name was read: of its process. NULL:
 * neither is known. */
static inline const char *proc__comm(const struct proc *p, const struct thread *t)
{
	if (t && t->is_named)
		return t->comm;
	return p && p->comm[0] ? p->comm : NULL;
}
/* Another program, in the process or in one that has its id: nothing is known of it. */
void procs__renew(struct procs *ps, struct proc *p);
/* It has ended: what is known of it goes when others have, or when its id is another's. */
void procs__end(struct procs *ps, struct proc *p);
/* Those that had ended when this was called before go; how many. */
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
