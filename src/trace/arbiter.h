/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Two producers at once: the library in a process records the calls that the driver's dispatch
 * pointers lead to it, and uprobes everything else.
 *
 * What has a dispatch pointer, and from when on, the library says when it has got hold of them; the
 * BPF side leaves those calls to it (bpf/inproc.bpf.h). Until then, and in processes that it never
 * gets into, uprobes see all. They are in a file, for whoever maps it, and cost their trap whoever
 * records the call: so once no process needs them they are taken off, but for functions without a
 * pointer. A process that maps the file afterwards is stopped until they are there again; where
 * processes are everybody's none is stopped, and they come back when one begins to use the driver
 * that no library sees.
 *
 * Calls of one producer that are made in those of the other are given their places here.
 */
#ifndef TRACE_ARBITER_H
#define TRACE_ARBITER_H

#include "inject/inject.h"
#include "record/check.h"

struct arbiter;
struct sources;

/* opt_in: processes ask for the library; of others it is not expected, and nobody is ever stopped.
 * NULL: no memory. */
struct arbiter *arbiter__new(struct attach *att, struct sources *sources, const struct fnset *fns,
			     bool opt_in);
void arbiter__free(struct arbiter *b);
/* A process maps this libcuda, and waits if its functions have no probes now (not with opt_in). */
void arbiter__maps(struct arbiter *b, pid_t pid, const char *comm, const struct attach_lib *lib);
/* The library in it has got hold of functions, and waits for us. false: uprobes go on seeing them.
 */
bool arbiter__inproc(struct arbiter *b, const struct inject_lib *lib);
/* Of a process that has ended or runs another program (CT_REC_EXIT, CT_REC_EXEC): programs of it
 * that are older than that are no more. */
ct_generation arbiter__left(const struct ct_rec *rec);
/* It has given up. */
void arbiter__lost(struct arbiter *b, pid_t pid);
/* Does its library see its calls? Of how many is that so? */
bool arbiter__is_inproc(const struct arbiter *b, pid_t pid);
unsigned arbiter__inproc_cnt(const struct arbiter *b);
/* Each record, in order. A call's place is put right: raw->call.call is room then. */
void arbiter__record(struct arbiter *b, struct raw *raw, struct ct_call *room);
/* By the clock. drained: all that had been sent was taken. */
void arbiter__tick(struct arbiter *b, uint64_t now, bool drained);

#endif /* TRACE_ARBITER_H */
