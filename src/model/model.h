/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Raw records in, events with their meaning out. The model knows the processes, what their handles
 * are called and which memory they hold.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "event.h"
#include "python.h"
#include "trace.h"

#include "decode/fnset.h"

struct model;
struct torch_lib;
struct quotas;
struct raw;

typedef void (*model_event_fn)(void *ctx, const struct trace_event *ev);

struct model_opts {
	const struct fnset *fns;
	model_event_fn fn; /* gets every event; it is valid during the call only */
	void *ctx;
	/* Records of this function are the tracer's own measurements: no events. */
	uint32_t stub_func_id;
	/* The processes live here: names of threads may be read. */
	bool live;
	enum ct_redact redact; /* what records do not hold */
	/* --kernel, --sched; abi: the running driver's version. */
	bool kernel, sched;
	bool stacks; /* --stack: look at new processes at once */
	bool python; /* --python */
	struct python_check python_check;
	/* --torch: see struct operators */
	const struct torch_lib *(*torch_lib)(void *ctx, unsigned lib_id);
	void *torch_ctx;
	bool gpu_time;
	const struct nv_abi *abi;
	struct quotas *quotas; /* of its tables; NULL: no bounds */
	/* Events shorter than this are not handed out, though the model learns from them. */
	uint64_t min_duration_ns;
};

struct model *model__new(const struct model_opts *opts);
void model__free(struct model *m);
/* One record that raw_check() let through. Of CT_REC_LIB and CT_REC_ENTER nothing is made: they
 * are the caller's. */
void model__record(struct model *m, const struct raw *raw);
/* The process is gone, and its exit was not seen. */
void model__forget(struct model *m, uint32_t pid);
/* The id of a function is another's from now on. */
void model__forget_fn(struct model *m, unsigned func_id);
/* To be called now and then: what was known of processes that have ended goes. Returns of how many.
 */
unsigned model__compact(struct model *m);
struct rank_wait;
/* Calls of that process were lost; 0: of which is not known. The numbers of its collectives are of
 * no use then, except those of communicators that are made later. */
void model__calls_lost(struct model *m, uint32_t pid);
/* They were this process's; 0: whose they were is not known. A handle of cuDNN may stand for
 * another descriptor by now. */
void model__handles_lost(struct model *m, uint32_t pid);
/* Probes are about to go, at that time: what the GPU is asked for from then on is no more of this
 * trace, unless its call is. */
void model__calls_end(struct model *m, uint64_t now);
/* Calls in flight are of use to know who waits for whom; asked before they are looked for. */
bool model__wants_in_flight(const struct model *m);
/* One of them, the outermost of its family, with its words. Its record may come at any time. */
void model__in_flight(struct model *m, uint32_t pid, uint32_t tid, uint32_t func_id,
		      const __u64 words[CT_MAX_WORDS], uint64_t start_ns);
/* The same: ranks that wait for one another (ranks.h). */
void model__look_at_ranks(struct model *m, uint64_t now,
			  void (*fn)(void *ctx, const struct rank_wait *w), void *ctx);
struct stack_source;
/* The stack of a thread that is in no call that has a record. It is defined, also if it was before,
 * in a file that may be gone. It lives until the next; NULL: it cannot be had. */
const struct stack *model__stack(struct model *m, uint32_t pid, uint32_t tid,
				 const struct stack_source *from, uint64_t now);
/* Calls shorter than min_duration_ns; the kernel side leaves out others, and counts those. */
uint64_t model__filtered(const struct model *m);
/* --kernel: fills in what became of the driver's objects. */
void model__objects(const struct model *m, struct trace_end *end);
/* Hands out what has not ended: ranges of --nvtx, and what still waits for its call (--gpu-time);
 * what became of launches, and of ranges. */
void model__flush(struct model *m);
void model__gpu(const struct model *m, struct trace_end *end);
/* --python: is there to be looked for a Python in the process? Its frames' names are found by what
 * is set; NULL: it has none that is known. */
bool model__wants_python(struct model *m, uint32_t pid);
struct python_location;
void model__set_python(struct model *m, uint32_t pid, const struct python_location *py);
void model__python(const struct model *m, struct trace_end *end);
void model__nvtx(const struct model *m, struct trace_end *end);
void model__torch(const struct model *m, struct trace_end *end);
/* Records of functions that there are not, or of what was not asked for. */
uint64_t model__bad_records(const struct model *m);

#endif /* MODEL_MODEL_H */
