/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Attaches library files, before the programs run and when processes map them.
 *
 * Before anything runs: the files that a program would load from here, and those that processes map
 * already. A process that maps another file later is found by an event. If it belongs to the
 * command that we started, it is stopped in that mmap call until the file is attached, so that no
 * call is missed. Other processes are never stopped: calls made before the file is attached are not
 * seen, and the library event reports the time from which they are.
 */
#ifndef TRACE_LIBS_H
#define TRACE_LIBS_H

#include "arbiter.h"
#include "refused_libs.h"
#include "stops.h"

#include "attach/attach.h"
#include "inject/inject.h"
#include "model/model.h"

/* A library mapping that could not be inspected yet, or for which there was no time. */
struct pending_lib {
	struct ct_lib_map rec;
	uint64_t next_ns, end_ns; /* next retry, and end of retries; 0: not tried yet */
};
#define LIBS_MAX_PENDING 512

struct libs {
	struct attach *att;
	struct arbiter *arbiter; /* or NULL */
	const struct fnset *fns;
	model_event_fn fn; /* receives library events */
	void *ctx;
	bool written; /* a known file has changed: libs__follow_writes() */
	bool wait;    /* no error if there is nothing to attach to yet */
	struct pending_lib pending[LIBS_MAX_PENDING];
	unsigned pending_cnt;
	struct refused_libs refused;
	struct stops stops;
	/* Processes that started before us and are still to be inspected (libs_start.c). */
	pid_t *later;
	unsigned later_cnt;
	uint64_t later_end_ns;
};
#define LIBS_MAX_LATER 65536

/* Attach what exists at the start; they report their own errors. Negative when nothing can be
 * traced. */
int libs__attach_file(struct libs *l, const char *path);
int libs__attach_pids(struct libs *l, const pid_t *pids, unsigned cnt);
/* Attaches files that a program would load; running: also those that processes map. */
int libs__attach_system(struct libs *l, bool running);
/* The library of a process is traced in-process from now on. false: it is not. */
bool libs__on_inject(struct libs *l, const struct inject_lib *lib);
/* It cannot be traced in-process. why: as on_missed of struct inject_opts. */
void libs__on_missed(struct libs *l, const struct inject_lib *lib, int why);
/* A process maps a library (CT_REC_LIB). */
void libs__on_map(struct libs *l, const struct ct_lib_map *rec);
/* Probes what was left out because of processes that had changed its code (at a reload). */
void libs__look_again(struct libs *l, uint64_t now);
/* To be called periodically, more often while libs__is_waiting(). drained: all records sent so far
 * have been read. Retries mappings that could not be inspected, and reports libraries that took
 * long. false, after reporting: there are no probes any more. */
bool libs__tick(struct libs *l, uint64_t now, bool drained);

/* Follows files that are written in place. To be called when attach__watch_fd() is readable, and
 * while libs__is_waiting(). */
void libs__follow_writes(struct libs *l);
bool libs__is_waiting(const struct libs *l);

#endif /* TRACE_LIBS_H */
