/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by arbiter_probes.c (which processes need probes) and arbiter.c (calls within calls). */
#ifndef TRACE_ARBITER_PRIV_H
#define TRACE_ARBITER_PRIV_H

#include "arbiter.h"

#include "attach/attach.h"
#include "util/hash_table.h"

/* A process with a libcuda; uprobes or its library record its calls. */
struct user {
	struct hash_link link; /* of the first in the process's list */
	struct user *next;     /* of the same process */
	pid_t pid;
	unsigned lib_id;
	bool inproc;
	bool began;		  /* uses the driver, and does not only map its file */
	bool announced;		  /* its uprobe tracing was announced */
	bool called;		  /* made a call that uprobes recorded */
	uint64_t since_ns;	  /* with inproc: when the library took over */
	ct_generation generation; /* of a process with the library */
	char comm[17];
};
HASH_TABLE(user, pid);

/*
 * A file that some process's in-process library has hooked. In these states, probes on functions
 * that the library covers are attached or not:
 *
 *   probed          a process needs the probes: armed, covered_off false; idle_ns 0
 *     |  no process needs them any more: idle_ns is set
 *   idle            as probed, for IDLE_NS (IDLE_OPT_IN_NS) at most
 *     |  the time has passed: probes on the other functions are attached anew, in a turn of their
 *        own
 *   armed           both turns are attached; armed true
 *     |  no call of the old turn is in flight
 *   detached        probes on covered functions are off; covered_off true
 *
 * When a process needs probes, each state returns to probed (attach__reattach()): the process maps
 * the file, or begins to use the driver without the library. scan_pos advances through /proc once,
 * for processes that started earlier.
 */
struct file {
	unsigned lib_id;
	char *path;
	uint64_t idle_ns; /* no process has needed its probes since then; 0: one does */
	pid_t scan_pos;	  /* processes up to this pid were checked: look_at_others() */
	bool armed, covered_off;
	uint64_t is_inproc[CT_MAX_FUNCS / 64];
};

/* A call whose entry uprobes recorded and that has not returned. */
struct open_call {
	pid_t pid;
	uint32_t tid;
	uint64_t id, start_ns;
	uint16_t func_id;
	uint8_t api, depth, api_depth;
};

struct arbiter {
	struct attach *att;
	struct sources *sources;
	const struct fnset *fns;
	bool opt_in;
	bool crowded; /* some processes are not stored, and may need probes */
	uint64_t looked_ns, swept_ns;
	uint64_t lost_cnt; /* lost process records, at the last check */
	uint64_t duplicate_cnt;
	uint64_t always_probed[CT_MAX_FUNCS / 64]; /* functions that keep their probes */
	bool sees_begin;			   /* they include the one that reports the first
						    * use */
	struct user_table users;
	unsigned user_cnt;
	struct file *files;
	unsigned file_cnt;
	struct open_call *calls; /* of each thread, outermost first */
	unsigned call_cnt, call_room;
};

/* arbiter_probes.c */
struct user *arbiter_user(const struct arbiter *b, pid_t pid, unsigned lib_id);
/* Announces, once for each process, that uprobes see its calls. */
void arbiter_announce(struct arbiter *b, struct user *u, const char *why);
void arbiter_fork(struct arbiter *b, const struct ct_task *rec);
/* The process begins to use the driver, and no library records its calls. */
void arbiter_begins(struct arbiter *b, pid_t pid);
/* Earlier programs of the process, with a lower generation, have ended. */
void arbiter_left(struct arbiter *b, pid_t pid, ct_generation generation);
/* Forgets all processes that need probes, and all files. */
void arbiter_drop_all(struct arbiter *b);
/* Finds the functions that always keep their probes. */
void arbiter_find_always_probed(struct arbiter *b);

#endif /* TRACE_ARBITER_PRIV_H */
