/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Explains failures from what the trace has. failure.c: finds them; suspects.c: work that had not
 * completed; xid.c: messages of the driver; address.c: memory at an address; params.c: parameters
 * of kernels that lead there; hang.c: waits that do not end; gpu_share.c: who had the GPU then;
 * oom.c: processes that hold memory; torch.c: PyTorch's allocator; growth.c: what steps leave;
 * verdict.c: sentences; print.c: output.
 */
#ifndef REPORT_FAILURE_FAILURE_PRIV_H
#define REPORT_FAILURE_FAILURE_PRIV_H

#include "failure.h"
#include "gpu_share.h"
#include "inflight.h"
#include "report/memory/memory.h"

#define CASES_MAX    32
#define SUSPECTS_MAX 8
#define HOLDERS_MAX  8
#define XIDS_MAX     64
#define FREED_MAX    4096
/* An Xid that names no process is of a failure at most this long before or after it. */
#define XID_NEAR_NS 2000000000ull

enum case_kind { CASE_FAULT, CASE_HANG, CASE_OOM, CASE_XID };
extern const char *const case_kind_name[];

/* Fields of the driver's message. */
struct fail_xid {
	uint32_t number;
	uint32_t pid; /* 0: the message has none */
	uint64_t at_ns, address;
	const char *gpu; /* NULL: unknown */
	bool has_address;
	char access[24]; /* "write", "read", "atomic"; "": unknown */
	bool used;	 /* it belongs to a failure */
};

enum memory_state {
	MEMORY_UNKNOWN, /* no address, or no ledger of the process */
	MEMORY_NULL,	/* in the first page */
	MEMORY_LIVE,
	MEMORY_FREED,
	MEMORY_PAST_END, /* of the nearest block */
	MEMORY_BEFORE,
	MEMORY_NEVER, /* no block of the trace is near */
};
extern const char *const memory_state_name[];

struct freed_block {
	struct memory_block b;
	uint32_t pid, tid;
	uint64_t freed_ns, freed_id; /* of the call that freed it */
	const char *freed_call;
	const struct stack *freed_stack;
};

struct fail_memory {
	enum memory_state state;
	uint64_t offset; /* LIVE, FREED: in the block; PAST_END, BEFORE: bytes between */
	struct freed_block block;
};

/* Memory by the place that allocated it. */
struct holder {
	const struct stack *stack; /* NULL: unknown */
	const char *call;
	uint64_t cnt, bytes, largest;
	uint64_t recent; /* bytes that were allocated in the last minute */
};

struct growth_block {
	uint64_t start_ns, size;
};

/* Memory that was allocated in the latest steps and is still held. */
struct growth {
	struct growth_block *blocks; /* that were held */
	unsigned cnt, cap;
	bool incomplete;
	uint64_t per_step;	    /* bytes; 0: memory did not grow, or that is unknown */
	unsigned steps, left_steps; /* examined; of these left blocks behind */
};

struct fail_case {
	enum case_kind kind;
	uint32_t pid, tid;
	uint64_t ctx, at_ns, end_ns, id; /* of the call that reported it */
	uint64_t cnt;			 /* calls that failed with this result */
	const struct api_fn *fn;
	int32_t result;
	struct work suspects[SUSPECTS_MAX];
	unsigned suspect_cnt, listed_cnt; /* all, and those in the array */
	bool partial;			  /* there may be other suspects */
	bool certain;			  /* set by the verdict */
	bool linked; /* only the first suspect has a parameter that leads to the
		      * memory of the fault */
	bool has_xid, has_address;
	struct fail_xid xid;
	struct fail_memory mem;
	/* HANG */
	uint64_t waited_ns, behind;
	uint64_t wait_event;  /* that is not recorded in the trace; 0: none */
	struct gpu_load load; /* in NVML's latest sample, if that was during the wait */
	struct gpu_residents residents;
	/* OOM */
	uint64_t requested, held, held_cnt;
	uint64_t recent, recent_cnt;		  /* of those held: allocated in the last minute */
	uint64_t recent_freed;			  /* bytes of older blocks that were freed in it */
	uint64_t torch_reserved, torch_allocated; /* by PyTorch's allocator; 0: unknown */
	uint64_t torch_hole; /* the largest free part of its segments in use; 0: unknown */
	uint64_t largest;    /* request that failed */
	bool recovered;	     /* the process got a block of this size later */
	bool went_on;	     /* its thread launched later */
	int device;
	struct holder holders[HOLDERS_MAX];
	unsigned holder_cnt;
	struct growth growth;
	uint64_t gpu_used, gpu_total;	     /* of NVML's latest sample; 0: none */
	struct gpu_user others[HOLDERS_MAX]; /* the largest other processes on the GPU */
	unsigned other_cnt;
	uint64_t others_held; /* bytes of all of them */
	char verdict[1024], advice[256];
};

struct torch_blocks;

struct fail_proc {
	uint32_t pid;
	char torch_device[16];
	bool torch_several; /* PyTorch uses several devices */
	uint64_t torch_allocated, torch_reserved;
	struct inflight work;
};

struct failure {
	struct report *r;
	struct keys proc_keys;
	struct fail_proc *procs;
	unsigned proc_cap;
	struct fail_case cases[CASES_MAX];
	unsigned cnt, more;
	struct fail_xid xids[XIDS_MAX];
	unsigned xid_cnt;
	struct freed_block *freed; /* ring of FREED_MAX, from the first free on */
	uint64_t freed_cnt;
	struct torch_blocks *torch; /* NULL: none */
	struct gpu_share gpu;
	/* Threads that --hang-after reported. */
	struct {
		uint32_t pid, tid;
	} reported[CASES_MAX];
	unsigned reported_cnt;
};

/* failure.c */
struct fail_proc *fail_proc_get(struct failure *f, uint32_t pid);
struct fail_case fail_case_of(enum case_kind kind, const struct trace_event *ev);
/* The new row of a failure, or NULL: there are CASES_MAX. */
struct fail_case *fail_case_add(struct failure *f, enum case_kind kind,
				const struct trace_event *ev);

/* suspects.c */
enum fault_work { FAULT_OF_KERNEL, FAULT_OF_ANY };
/* Sets the kind of work that may cause this result. Returns false if it is not a fault of a
 * context.
 */
bool fault_is(const struct api_fn *fn, int32_t result, enum fault_work *of);
/* Launches of kernels and graphs. */
bool runs_code(const struct work *x);
/* Lists the work that may be the cause, launches first. */
void suspects_of_fault(struct failure *f, struct fail_case *c, enum fault_work of);
/* A GPU record shows that the call's work had completed: it and older work of its stream are not
 * suspects. */
void suspects_ran(struct failure *f, const struct trace_event *ev);
/* Place of a call: operator, Python line or native function outside the CUDA runtime. "" if
 * unknown. operator, kernel: NULL if there is none. */
void stack_place(const struct stack *stack, const char *operator, const char * kernel, char *buf,
		 size_t size);
void submission_name(const struct work *x, char *buf, size_t size);

/* xid.c */
enum xid_blame { BLAME_PROGRAM, BLAME_HARDWARE, BLAME_DRIVER, BLAME_OTHER, BLAME_UNKNOWN };
extern const char *const xid_blame_name[];
enum xid_blame xid_blame(uint32_t number);
const char *xid_advice(uint32_t number);
void xid_parse(struct fail_xid *x, const char *message);
void xid_event(struct failure *f, const struct trace_event *ev);
/* Stores the Xid that belongs to the failure in it, if there is one. */
void xid_join(struct failure *f, struct fail_case *c);
/* Makes failures of Xids of the hardware or the driver that belong to no call. */
void xid_finish(struct failure *f);

/* address.c */
void address_event(struct failure *f, const struct trace_event *ev);
void address_find(struct failure *f, struct fail_case *c);
/* The free that the trace has as this call; NULL: it is not remembered. */
const struct freed_block *address_freed_by(const struct failure *f, uint32_t pid, uint64_t id);

/* params.c */
extern const char *const work_link_name[];
/* Finds the suspects with such a parameter; a single one becomes the first suspect. */
void params_find(struct fail_case *c);

/* hang.c */
void hang_reported(struct failure *f, const struct trace_event *ev);
void hang_event(struct failure *f, const struct trace_event *ev);
/* Drops waits that are no longer than others that returned. */
void hang_finish(struct failure *f);

/* oom.c */
void oom_event(struct failure *f, const struct trace_event *ev);
void oom_retried(struct failure *f, const struct trace_event *ev);
/* Drops failures after which the process got the memory. */
void oom_finish(struct failure *f);

/* torch.c */
void torch_event(struct failure *f, const struct trace_event *ev);
void torch_at_oom(struct failure *f, struct fail_case *c);
void torch_free(struct failure *f);

/* growth.c */
void growth_add(struct fail_case *c, const struct memory_block *b);
void growth_finish(struct failure *f, struct fail_case *c);

/* verdict.c */
void fail_verdict(struct failure *f, struct fail_case *c);

/* print.c */
extern const struct section_table failure_cases_table;
void failure_print(const void *a, const struct term *term);

#endif /* REPORT_FAILURE_FAILURE_PRIV_H */
