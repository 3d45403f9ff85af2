/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What arbiter_probes.c (who needs probes) and arbiter.c (calls in calls) share. */
#ifndef TRACE_ARBITER_PRIV_H
#define TRACE_ARBITER_PRIV_H

#include "arbiter.h"

#include "attach/attach.h"

#include <uthash.h>

/* A process with a libcuda: its calls are seen by uprobes, or by its library. */
struct user {
	UT_hash_handle hh; /* by pid: the first of them */
	struct user *next; /* of the same process */
	pid_t pid;
	unsigned lib_id;
	bool inproc;
	bool began;		  /* uses the driver: not only a process that has its file */
	bool said;		  /* that uprobes see them */
	bool called;		  /* made a call that they have seen */
	ct_generation generation; /* of one that is inside */
	char comm[17];
};

/*
 * A file that some process's in-process library has hooked. Its states, in which probes on
 * functions that the library covers are attached or not:
 *
 *   probed          a process needs the probes: armed, covered_off false; idle_ns 0
 *     |  no process needs them any more: idle_ns is set
 *   idle            as probed, for IDLE_NS (IDLE_OPT_IN_NS) at most
 *     |  the time has passed: probes on the other functions are attached anew, in a turn of their
 * own armed           both turns are attached; armed true |  no call of the old turn is in flight
 *   detached        probes on covered functions are off; covered_off true
 *
 * From each state a process that needs probes (it maps the file, or begins to use the driver
 * without the library) leads back to probed: attach__reattach(). scan_pos goes through /proc once,
 * for processes that were there before.
 */
struct file {
	unsigned lib_id;
	char *path;
	uint64_t idle_ns; /* nobody needs its probes since then; 0: somebody does */
	pid_t scan_pos;	  /* processes up to that number: look_at_others() */
	bool armed, covered_off;
	uint64_t is_inproc[CT_MAX_FUNCS / 64];
};

/* A call that uprobes see, and that has not returned. */
struct open_call {
	pid_t pid;
	uint32_t tid;
	uint64_t id, start_ns;
	uint8_t api, depth, api_depth;
};

struct arbiter {
	struct attach *att;
	struct sources *sources;
	const struct fnset *fns;
	bool opt_in;
	bool crowded; /* some have found no room, and may need probes */
	uint64_t looked_ns, swept_ns;
	uint64_t lost_cnt;			   /* records of processes, at the last look */
	uint64_t always_probed[CT_MAX_FUNCS / 64]; /* functions that keep their probes */
	bool sees_begin;			   /* the one that says so is among them */
	struct user *users;
	unsigned user_cnt;
	struct file *files;
	unsigned file_cnt;
	struct open_call *calls; /* of a thread the outermost first */
	unsigned call_cnt, call_room;
};

/* arbiter_probes.c */
struct user *arbiter_user(const struct arbiter *b, pid_t pid, unsigned lib_id);
/* Once for each process: that uprobes see its calls. */
void arbiter_announce(struct arbiter *b, struct user *u, const char *why);
void arbiter_fork(struct arbiter *b, const struct ct_task *rec);
/* It begins to use the driver, and no library sees it. */
void arbiter_begins(struct arbiter *b, pid_t pid);
/* Programs that the process ran before that life are no more. */
void arbiter_left(struct arbiter *b, pid_t pid, ct_generation generation);
/* No process needs probes, and no file is known. */
void arbiter_drop_all(struct arbiter *b);
/* The functions that keep their probes whatever happens. */
void arbiter_find_always_probed(struct arbiter *b);

#endif /* TRACE_ARBITER_PRIV_H */
