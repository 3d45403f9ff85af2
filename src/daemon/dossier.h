/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Dossiers: for a failure of a process, a folder with all that is known about it. */
#ifndef DAEMON_DOSSIER_H
#define DAEMON_DOSSIER_H

#include "dossier_gpu.h"
#include "dossier_worker.h"
#include "metrics/metrics.h"

struct daemon;
struct dproc;
struct trace_event;

#define DOSSIERS_QUEUED_MAX 8
#define DOSSIERS_HOUR_MAX   1000 /* of dossier.per_hour */

enum dossier_state {
	DOSSIER_WANTED,	   /* has no folder yet */
	DOSSIER_BEGUN,	   /* has the threads; the calls are due at due_ns */
	DOSSIER_COLLECTED, /* waits for the worker */
	DOSSIER_RUNNING,   /* the worker completes it */
};

struct dossier {
	enum dossier_state state;
	enum dossier_reason reason;
	uint32_t pid;
	char comm[17];
	char text[512];	 /* what happened */
	char name[128];	 /* of its folder */
	int folder;	 /* descriptor; -1: none */
	uint64_t due_ns; /* CLOCK_MONOTONIC */
	int64_t since_s; /* since the epoch */
	uid_t uid;	 /* of the program; -1: it has ended */
	bool has_calls, may_request;
	char calls_error[64];
	struct out *facts; /* the first members of its index; NULL: no memory */
};

struct dossiers {
	struct dossier_worker *worker; /* NULL: none are made */
	struct dossier queue[DOSSIERS_QUEUED_MAX];
	unsigned cnt;
	bool is_running; /* the worker has one */
	struct dossier_gpus gpus;
	/* Those of the last hour, as a ring. */
	struct {
		uint64_t ns;
		uint32_t owner;
	} made[DOSSIERS_HOUR_MAX];
	unsigned next;
	uint64_t made_cnt[DOSSIER_REASON_CNT], refused_cnt[DOSSIER_REFUSAL_CNT];
};

/* Requests one for an event: a fault, an Xid, a hang. */
void dossier__event(struct daemon *d, struct dproc *p, const struct trace_event *ev);
/* Requests one for a failed call that was only counted. */
void dossier__counted_error(struct daemon *d, struct dproc *p, int32_t result);
/* Requests one now. core: also a GPU core dump, which ends the program's GPU work. Returns its
 * folder's name; NULL: *why has the reason. */
const char *dossier__request(struct daemon *d, struct dproc *p, bool core, const char **why);
/* The program of the process has ended, by its exit or by exec. */
void dossier__program_ended(struct daemon *d, uint32_t pid);
/* Continues those in the queue; returns whether any is unfinished. */
bool dossier__tick(struct daemon *d);
/* The daemon ends: writes what is known. */
void dossier__finish(struct daemon *d);
void dossier__free(struct daemon *d);

#endif /* DAEMON_DOSSIER_H */
