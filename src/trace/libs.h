/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which library files are attached, and when.
 *
 * Before anything runs: the files that a program would load from here, and those that processes map
 * already. A process that maps another file later is found by an event. If it belongs to the
 * command that we started, it was stopped in that very mmap call and goes on when we have attached,
 * so that no call is missed. Others are never stopped: what they call before we are there is not
 * seen, and the library event says from when on it is.
 */
#ifndef TRACE_LIBS_H
#define TRACE_LIBS_H

#include "arbiter.h"
#include "refused_libs.h"

#include "attach/attach.h"
#include "inject/inject.h"
#include "model/model.h"

/* A library mapping that could not be looked at yet, or that there was no time for. */
struct pending_lib {
	struct ct_lib_map rec;
	uint64_t next_ns,
		end_ns; /* when it is looked at again, and no more; 0: not looked at yet */
};
#define LIBS_MAX_PENDING 512

struct libs {
	struct attach *att;
	struct arbiter *arbiter; /* or NULL */
	const struct fnset *fns;
	model_event_fn fn; /* gets library events */
	void *ctx;
	bool written; /* one that is known has changed: libs__follow_writes() */
	bool wait;    /* nothing to attach to yet is fine */
	struct pending_lib pending[LIBS_MAX_PENDING];
	unsigned pending_cnt;
	struct refused_libs refused;
	/* Processes that ran before us and have not been looked at (libs_start.c). */
	pid_t *later;
	unsigned later_cnt;
	uint64_t later_end_ns;
};
#define LIBS_MAX_LATER 65536

/* What is there at the start; they report their own errors. Negative when nothing can be traced. */
int libs__attach_file(struct libs *l, const char *path);
int libs__attach_pids(struct libs *l, const pid_t *pids, unsigned cnt);
/* Files that a program would load; running: also those that processes map. */
int libs__attach_system(struct libs *l, bool running);
/* A library that a process has is traced in the process itself from now on. false: it is not. */
bool libs__on_inject(struct libs *l, const struct inject_lib *lib);
/* It cannot be traced there. why: as on_missed of struct inject_opts. */
void libs__on_missed(struct libs *l, const struct inject_lib *lib, int why);
/* A process maps a library (CT_REC_LIB). */
void libs__on_map(struct libs *l, const struct ct_lib_map *rec);
/* To be called by the clock (drained: all that had been sent was taken), the more often while it is
 * true that libs__is_waiting(). Tries again where the mapping could not be looked at, and hears of
 * libraries that took long. false, after reporting: there are no probes any more. */
bool libs__tick(struct libs *l, uint64_t now, bool drained);

/* Files that are written to in place. To be called when attach__watch_fd() is readable, and while
 * libs__is_waiting(). */
void libs__follow_writes(struct libs *l);
bool libs__is_waiting(const struct libs *l);

#endif /* TRACE_LIBS_H */
