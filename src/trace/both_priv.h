/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both_probes.c (who needs probes) and both.c (calls in calls) share. */
#ifndef TRACE_BOTH_PRIV_H
#define TRACE_BOTH_PRIV_H

#include "both.h"

#include "attach/attach.h"

#include <uthash.h>

/* A process with a libcuda: its calls are seen by uprobes, or by its library. */
struct user {
	UT_hash_handle hh; /* by pid: the first of them */
	struct user *next; /* of the same process */
	pid_t pid;
	unsigned lib_id;
	bool inside;
	bool began;   /* uses the driver: not only a process that has its file */
	bool said;    /* that uprobes see them */
	bool called;  /* made a call that they have seen */
	ct_life life; /* of one that is inside */
	char comm[17];
};

/* A file of which some process's library has got hold. */
struct file {
	unsigned lib_id;
	char *path;
	uint64_t quiet_ns; /* nobody needs its probes since then; 0: somebody does */
	pid_t looked_to;   /* processes up to that number: look_at_others() */
	bool prepared, narrow;
	uint64_t is_inside[CT_MAX_FUNCS / 64];
};

/* A call that uprobes see, and that has not returned. */
struct open_call {
	pid_t pid;
	uint32_t tid;
	uint64_t id, start_ns;
	uint8_t api, depth, api_depth;
};

struct both {
	struct attach *att;
	struct sources *sources;
	const struct fnset *fns;
	bool opt_in;
	bool crowded; /* some have found no room, and may need probes */
	uint64_t looked_ns, swept_ns;
	uint64_t lost_cnt;		   /* records of processes, at the last look */
	uint64_t early[CT_MAX_FUNCS / 64]; /* functions that keep their probes */
	bool sees_begin;		   /* the one that says so is among them */
	struct user *users;
	unsigned user_cnt;
	struct file *files;
	unsigned file_cnt;
	struct open_call *calls; /* of a thread the outermost first */
	unsigned call_cnt, call_room;
};

/* both_probes.c */
struct user *both_user(const struct both *b, pid_t pid, unsigned lib_id);
/* Once for each process: that uprobes see its calls. */
void both_say(struct both *b, struct user *u, const char *why);
void both_fork(struct both *b, const struct ct_task *rec);
/* It begins to use the driver, and no library sees it. */
void both_begins(struct both *b, pid_t pid);
/* Programs that the process ran before that life are no more. */
void both_left(struct both *b, pid_t pid, ct_life life);
/* No process needs probes, and no file is known. */
void both_drop_all(struct both *b);
/* The functions that keep their probes whatever happens. */
void both_find_early(struct both *b);

#endif /* TRACE_BOTH_PRIV_H */
