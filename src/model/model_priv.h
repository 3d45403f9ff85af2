/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of the model, shared by model.c and the files with its parts (model_*.c). */
#ifndef MODEL_PRIV_H
#define MODEL_PRIV_H

#include "devices.h"
#include "driver.h"
#include "event_table.h"
#include "annotate.h"
#include "model.h"
#include "ranks.h"

struct model {
	struct model_opts opts;
	struct procs procs;
	struct kernel_names *names;
	struct driver driver;
	struct stacks *stacks;
	struct ranges ranges;
	struct operators operators;
	struct ranks ranks;
	struct devices devices;
	struct annotations meanings[CT_MAX_FUNCS];
	/* The last call. Its content is not reused, but most members are empty and stay so. */
	struct trace_event call;
	uint64_t bad_cnt;
	uint64_t filtered_cnt;
	uint64_t calls_end_ns; /* 0: calls are traced */
};

/* Returns an event without duration, from a record. op is also its name. */
static inline struct trace_event event_of(enum event_kind kind, const struct ct_rec *rec,
					  const char *op)
{
	return (struct trace_event){
		.kind = kind,
		.type = event_kinds[kind].type,
		.op = op,
		.name = op,
		.pid = rec->pid,
		.tid = rec->tid,
		.comm = "",
		.start_ns = rec->ts_ns,
		.end_ns = rec->ts_ns,
	};
}

/* model_call.c */
void model__call(struct model *m, const struct raw_call *raw);

/* model_gpu.c: --gpu-time */
/* Delivers an execution with its call, which may arrive later. */
void model__gpu_run(struct model *m, const struct ct_gpu_run *g);
/* Handles a call that may make a GPU execute something. is_line: it is in the trace. */
void model__gpu_call(struct model *m, struct proc *p, struct thread *t,
		     const struct trace_event *ev, bool is_line);
/* model__gpu_end(): no more calls of the process follow; model__gpu_flush(): no more calls at
 * all. */
void model__gpu_end(struct model *m, uint32_t pid);
void model__gpu_flush(struct model *m);

/* model_stalls.c: --stalls. The records of ct_stall.h. */
struct ct_stalls;
struct ct_stall_pcs;
struct ct_stall_code;
struct ct_stall_source;
void model__stalls(struct model *m, const struct ct_stalls *rec);
void model__stall_pcs(struct model *m, const struct ct_stall_pcs *rec);
void model__stall_code(struct model *m, const struct ct_stall_code *rec);
void model__stall_source(struct model *m, const struct ct_stall_source *rec);

/* Delivers events for new data on devices. */
void model__give_devices(struct model *m, uint64_t ns);

#endif /* MODEL_PRIV_H */
