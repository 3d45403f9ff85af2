/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A separate process that completes dossiers, because the daemon itself may start no process
 * (util/sandbox.h). For each it starts processes with limits of time and memory: `cudatrace report`
 * on the recorded calls, and the reader of the GPU core dump. It gets a descriptor of the folder
 * and no path.
 */
#ifndef DAEMON_DOSSIER_WORKER_H
#define DAEMON_DOSSIER_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Names in a dossier's folder. */
#define DOSSIER_CALLS	     "calls.jsonl.zst"
#define DOSSIER_VERDICT_TEXT "verdict.txt"
#define DOSSIER_VERDICT_JSON "verdict.json"
#define DOSSIER_THREADS	     "threads.txt"
#define DOSSIER_CORE_JSON    "gpu-core.json"
#define DOSSIER_INDEX	     "dossier.json"

struct dossier_worker;

struct dossier_job {
	uint32_t pid;
	uid_t uid;	  /* of the program for which it was begun; -1: that program has ended */
	bool has_calls;	  /* else there is nothing to report on */
	bool may_request; /* request a GPU core dump, which ends the program's GPU work */
	int64_t since_s;  /* a GPU core dump from then on belongs to it; since the epoch */
};

struct dossier_result {
	bool certain;
	char verdict[1024]; /* of the process, else of the first failure; "": none */
	char failed[160];   /* why there is no verdict.json; "": there is one */
	char core[256];	    /* state of the GPU core dump; "": not requested */
};

/* Call this before the daemon opens anything. sandbox: with only the capabilities that it needs.
 * NULL after reporting. */
struct dossier_worker *dossier_worker__new(bool sandbox);
/* One job at a time. folder: a descriptor, which stays the caller's. false: the process has ended.
 */
bool dossier_worker__start(struct dossier_worker *w, int folder, const struct dossier_job *job);
/* Returns whether the job has ended, also because the process has. */
bool dossier_worker__ended(struct dossier_worker *w, struct dossier_result *res);
void dossier_worker__free(struct dossier_worker *w);

#endif /* DAEMON_DOSSIER_WORKER_H */
