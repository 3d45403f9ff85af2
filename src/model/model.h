/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turns raw records into annotated events. The model tracks processes, the names of their handles,
 * and their memory.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "event.h"
#include "python.h"
#include "ranges.h"
#include "trace.h"

#include "decode/fnset.h"

struct model;
struct torch_lib;
struct quotas;
struct raw;

typedef void (*model_event_fn)(void *ctx, const struct trace_event *ev);

struct model_opts {
	const struct fnset *fns;
	model_event_fn fn; /* called with every event, which is valid during the call only */
	void *ctx;
	/* Records of this function are the tracer's own measurements and make no events. */
	uint32_t stub_func_id;
	/* The processes run on this machine: thread names may be read. */
	bool live;
	bool kernel_args;      /* launches may have parameters */
	enum ct_redact redact; /* data that records do not contain */
	/* --kernel, --sched; abi: that of the running driver. */
	bool kernel, sched;
	bool stacks;  /* --stack: read the mappings of new processes at once */
	bool python;  /* --python */
	bool profile; /* only sampled calls have stacks */
	struct python_check python_check;
	/* --torch: see struct operators */
	const struct torch_lib *(*torch_lib)(void *ctx, unsigned lib_id);
	void *torch_ctx;
	bool gpu_time, stalls;
	bool cupti_late; /* CUPTI is started in running programs: model__gpu_since() */
	const struct nv_abi *abi;
	struct quotas *quotas; /* limits of its tables; NULL: none */
	range_fn on_range;     /* NULL: none */
	/* Shorter events are not delivered, but still update the model. */
	uint64_t min_duration_ns;
};

struct model *model__new(const struct model_opts *opts);
void model__free(struct model *m);
/* Handles one record that raw_check() accepted. CT_REC_LIB and CT_REC_ENTER make no events: the
 * caller handles them. */
void model__record(struct model *m, const struct raw *raw);
/* Forgets a process that has ended although its exit was not recorded. */
void model__forget(struct model *m, uint32_t pid);
/* Forgets a function, because its ID is reused. */
void model__forget_fn(struct model *m, unsigned func_id);
/* Call it from time to time. Drops the state of processes that have ended, and returns their
 * number. */
unsigned model__compact(struct model *m);
struct rank_wait;
/* Reports that calls of process pid were dropped; 0: of an unknown process. Sequence numbers of its
 * communicators are then invalid, except for communicators made later. */
void model__calls_lost(struct model *m, uint32_t pid);
/* Reports that calls on handles of process pid were dropped; 0: of an unknown process. A handle of
 * cuDNN may stand for another descriptor by now. */
void model__handles_lost(struct model *m, uint32_t pid);
/* Reports that probes will be detached, at time now. Later requests to the GPU are not part of this
 * trace, unless their call is. */
void model__calls_end(struct model *m, uint64_t now);
/* Returns whether calls in flight are needed to find ranks that wait for each other. Check it
 * before searching for them. */
bool model__wants_in_flight(const struct model *m);
/* Handles one call in flight, the outermost of its family, with its words. Its record may arrive at
 * any time. */
void model__in_flight(struct model *m, uint32_t pid, uint32_t tid, uint32_t func_id,
		      const __u64 words[CT_MAX_WORDS], uint64_t start_ns);
/* Makes the event of a call in flight that waits or may wait (model/call.h), with its words.
 * Returns false for another call. Valid until the next record. */
bool model__wait(struct model *m, const struct ct_call *call, const __u64 words[CT_MAX_WORDS],
		 struct trace_event *ev);
/* Calls fn for ranks that wait for each other (ranks.h). */
void model__look_at_ranks(struct model *m, uint64_t now,
			  void (*fn)(void *ctx, const struct rank_wait *w), void *ctx);
struct block;
/* Calls fn for each live block of process pid, by address or handle. */
void model__each_block(struct model *m, uint32_t pid, void (*fn)(void *ctx, const struct block *b),
		       void *ctx);
struct stack_source;
/* Returns the stack of a thread that is in no recorded call; NULL: not available. It is delivered
 * as a definition even if it was before, because that file may have been removed. Valid until the
 * next call. */
const struct stack *model__stack(struct model *m, uint32_t pid, uint32_t tid,
				 const struct stack_source *from, uint64_t now);
/* Number of calls shorter than min_duration_ns that the model filtered. The BPF programs filter
 * others, and count those. */
uint64_t model__filtered(const struct model *m);
/* --kernel: sets the counts of the driver's objects. */
void model__objects(const struct model *m, struct trace_end *end);
/* model__flush() delivers what has not ended: ranges of --nvtx, and executions that still wait for
 * their call (--gpu-time). model__gpu() sets the counts of launches and of ranges. */
void model__flush(struct model *m);
void model__gpu(const struct model *m, struct trace_end *end);
/* From this time on, calls of the process have GPU times; not 0. */
void model__gpu_since(struct model *m, uint32_t pid, uint64_t ns);
/* --python: returns whether to search the process for Python. model__set_python() sets the result;
 * NULL: no known Python. */
bool model__wants_python(struct model *m, uint32_t pid);
struct python_location;
void model__set_python(struct model *m, uint32_t pid, const struct python_location *py);
void model__python(const struct model *m, struct trace_end *end);
void model__nvtx(const struct model *m, struct trace_end *end);
void model__torch(const struct model *m, struct trace_end *end);
/* Number of records with an unknown function, or of a kind that was not requested. */
uint64_t model__bad_records(const struct model *m);

#endif /* MODEL_MODEL_H */
