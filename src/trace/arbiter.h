/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two producers at once: the in-process library records calls that the driver's dispatch pointers
 * lead to it, and uprobes record everything else.
 *
 * The library reports which functions have a dispatch pointer, and since when. The BPF side leaves
 * those calls to it (bpf/inproc.bpf.h). Until then, and in processes that the library never enters,
 * uprobes see all calls. Uprobes are attached to a file, for every process that maps it, and cost
 * their trap whichever producer records the call. So once no process needs them they are detached,
 * except from functions without a pointer. A process that maps the file afterwards is stopped until
 * they are attached again. Where processes belong to several users, none is stopped: the probes are
 * attached again when a process without the library begins to use the driver.
 *
 * Calls of one producer that are made within calls of the other get their depth and parent here.
 */
#ifndef TRACE_ARBITER_H
#define TRACE_ARBITER_H

#include "inject/inject.h"
#include "record/check.h"

struct arbiter;
struct sources;

/* opt_in: processes connect to the library by choice; it is not expected in others, and no process
 * is stopped. NULL: no memory. */
struct arbiter *arbiter__new(struct attach *att, struct sources *sources, const struct fnset *fns,
			     bool opt_in);
void arbiter__free(struct arbiter *b);
/* A process maps this libcuda. It waits if the file's functions have no probes now (not with
 * opt_in). */
void arbiter__maps(struct arbiter *b, pid_t pid, const char *comm, const struct attach_lib *lib);
/* The library in the process has hooked functions, and waits for an answer. false: uprobes still
 * record them. */
bool arbiter__inproc(struct arbiter *b, const struct inject_lib *lib);
/* For a process that has ended or runs another program (CT_REC_EXIT, CT_REC_EXEC): programs of the
 * process with a lower generation have ended. */
ct_generation arbiter__left(const struct ct_rec *rec);
/* The library in this process has stopped. */
void arbiter__lost(struct arbiter *b, pid_t pid);
/* Returns whether its library records its calls, and the number of such processes. */
bool arbiter__is_inproc(const struct arbiter *b, pid_t pid);
unsigned arbiter__inproc_cnt(const struct arbiter *b);
uint64_t arbiter__duplicates(const struct arbiter *b);
/* Takes each record, in order. Corrects a call's depth and parent: raw->call.call is overwritten.
 * false: uprobes record this call, too; it is to be dropped, and is counted here. */
bool arbiter__record(struct arbiter *b, struct raw *raw, struct ct_call *room);
/* Called by the clock. drained: all records sent so far have been read. */
void arbiter__tick(struct arbiter *b, uint64_t now, bool drained);

#endif /* TRACE_ARBITER_H */
