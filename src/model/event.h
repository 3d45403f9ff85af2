/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The event that sinks and reports receive: decoded and annotated. Its pointers are valid only
 * until the sink's function returns.
 */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include "decode/value.h"

/* Generated from events.def: EVENT_CALL, EVENT_PROCESS, ... */
enum event_kind {
#define EVENT(ID, id, type, flags, ops, text) EVENT_##ID,
#include "events.def"
	EVENT_KIND_CNT
};

/* "type" in JSONL: TYPE_INIT, ..., TYPE_PROCESS, ... */
enum event_type {
#define CLASS(id, name, TYPE, ...)                                                                 \
	TYPE_##TYPE                                                                                \
	,
#include "decode/cuda_classes.def"
#undef CLASS
#define CALL_TYPES
#define OWN_TYPE(ID, name)		      TYPE_##ID,
#define EVENT(ID, id, type, flags, ops, text) type
#include "events.def"
#undef CALL_TYPES
#undef OWN_TYPE
	TYPE_CNT
};
const char *event_type_name(enum event_type t);
/* Returns the type of the calls of a class. */
enum event_type event_type_of(enum api_class c);

struct launch_params;
struct launch_info {
	uint32_t grid[3], block[3];
	uint32_t cluster[3]; /* 0: not set */
	uint32_t shared_mem_sz;
	bool has_config; /* false: the launch configuration could not be read */
	bool cooperative;
	uint64_t func;	    /* handle */
	const char *kernel; /* demangled; NULL when unknown */
	const char *kernel_mangled;
	bool kernel_guessed; /* read through the handle, not recorded from a lookup call */
	bool params_cut;     /* the kernel has more parameters */
	/* model/params.h; NULL: not recorded. Valid during the call of the sink. */
	const struct launch_params *params;
};

/* A call of NCCL. */
struct collective_info {
	uint64_t count;
	uint64_t bytes;	       /* S of nccl-tests */
	uint64_t hash;	       /* hash of the communicator, the same in all of its ranks */
	uint32_t rank, nranks; /* nranks 0: not known */
	uint64_t seq;	  /* number of the collective in this rank, from 1; 0: not a collective */
	bool seq_partial; /* as in struct comm: some collectives are not counted */
	const char *datatype, *redop;	  /* NULL: none */
	const char *algorithm, *protocol; /* NULL: not known */
	int32_t peer;			  /* or root */
	uint64_t group;	  /* ID of the call that begins its group; 0: not in a group */
	uint32_t grouped; /* for the end of a group: number of calls in the group */
};

/* A matrix product: C is m by n, and k is the inner dimension of A and B. Types have the names of
 * cudaDataType; NULL: unknown. */
struct gemm_info {
	uint64_t m, n, k, batch;
	uint64_t flops; /* 0: none, or the enclosing call has them */
	uint64_t bytes; /* of cuDNN: of all operands; 0: not known */
	const char *a_type, *b_type, *c_type, *compute_type;
};

/* Optional members of struct trace_event that are set. */
enum event_has {
	HAS_SIZE = 1 << 0,
	HAS_PTR = 1 << 1,
	HAS_STREAM = 1 << 2,
	HAS_LAUNCH = 1 << 3,
	HAS_DIR = 1 << 4,
	HAS_BANDWIDTH = 1 << 5,
	HAS_CU_EVENT = 1 << 6,
	HAS_KERNEL = 1 << 7,  /* kernel name of a lookup call: in launch.kernel */
	HAS_IOCTLS = 1 << 8,  /* --kernel: ioctl_cnt and ioctl_ns are counted */
	HAS_OFF_CPU = 1 << 9, /* --sched */
	HAS_GRID = 1 << 10,   /* read from a file: launch.has_config */
	HAS_COUNT = 1 << 11,  /* of collective_info */
	HAS_BYTES = 1 << 12,
	HAS_COMM = 1 << 13, /* hash */
	HAS_ROOT = 1 << 14, /* peer is the root */
	HAS_PEER = 1 << 15,
	HAS_GEMM = 1 << 16,
};

/* Live memory of a process after the event (EVENT_CALL of type memory). */
struct mem_totals {
	uint64_t bytes[MEM_KIND_CNT];
};

/* GPU times of the executions of a call (--gpu-time). */
struct gpu_times {
	uint64_t start_ns; /* start of the first execution */
	uint64_t queue_ns; /* from the call's start to start_ns */
	uint64_t ns;	   /* total of all executions */
	uint64_t cnt;	   /* number of executions; 0: none so far */
};

struct nv_ioctl;
struct nv_sched;
struct device;

/* A system call into the NVIDIA driver. */
struct driver_info {
	const char *device;	      /* "nvidiactl", "nvidia0", "nvidia-uvm", ... */
	const struct nv_ioctl *io;    /* decoded; NULL for open, close, mmap, poll */
	const char *object_class;     /* class of the command's object; NULL: unknown */
	const struct nv_sched *sched; /* EVENT_SCHED */
	const char *sched_values;     /* EVENT_SCHED: "timesliceUs=2000"; NULL: not read */
	uint64_t call_id;	      /* enclosing CUDA call of the thread; 0: none */
	const char *call;	      /* public name of that call */
	uint32_t cmd;
	int32_t fd; /* -1: not known */
	int64_t ret;
	uint64_t address, length; /* mmap */
};

/* A return address, or a frame of Python code with module as its file and symbol as its function.
 * With neither, ip is the code object, whose names could not be read. */
struct stack_frame {
	uint64_t ip;
	uint64_t offset;      /* offset of the address in its module, as addr2line expects it */
	const char *module;   /* path, "[anon]", ...; NULL: no known mapping */
	const char *build_id; /* NULL: none */
	const char *symbol;   /* "name+0x12"; NULL: not known */
	uint32_t python;      /* 1: a frame of Python code */
	uint32_t line;	      /* its line; 0: unknown */
};

/* The call stack of a call. Each process has one per content. */
struct stack {
	uint64_t id; /* unique in the trace, from 1 */
	unsigned frame_cnt;
	struct stack_frame frames[]; /* innermost first */
};

/* Members of an event read from a file, as text: "key":value,... without the braces. */
struct event_text {
	const char *fields; /* the members that event_visit_fields() visits */
	size_t fields_len;
	const char *args; /* content of "args" */
	size_t args_len;
};

/* A value that may be unknown. */
struct opt_u64 {
	uint64_t v;
	bool known;
};

/* form_u32, ...: the C type of each form in forms.def. */
typedef uint32_t form_dim3[3];
typedef struct {
} form_none;
#define FORM(form, c_type, schema) typedef c_type form_##form;
#include "forms.def"

/* The members of one kind of events: struct event_xid, ... */
#define EVENT(ID, id, type, flags, ops, text)		 struct event_##id {
#define OWN_AS(id, form, name, member, when, unit, text) form_##form member;
#define ROW(id, where, form, name, place, value, when, unit, text)
#define END(id)                                                                                    \
	}                                                                                          \
	;
#include "events.def"

/* Size of a thread's name in the kernel, including the NUL. */
#define THREAD_COMM_SZ 16

struct trace_event {
	enum event_kind kind;
	enum event_type type;
	const char *op;
	const char *name; /* public name, or "fork", "exec", "exit", "libcuda" */

	uint32_t pid, tid;
	const char *comm;	   /* thread name: any bytes */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */

	/* EVENT_CALL */
	const struct api_fn *fn;
	uint64_t id, parent_id;
	unsigned depth;
	unsigned api_depth; /* the same, counting only calls of its family */
	unsigned lib_id;
	int32_t result;
	bool unfinished, abandoned;
	bool entry_only; /* its return was not probed: no result, no end */
	bool sampled;	 /* for the profile; its process may be at level metrics */
	bool is_error;	 /* result is an error; CUDA_ERROR_NOT_READY is not */
	uint8_t made;	 /* memory: 1 + enum block_kind of the memory it makes; 0: by its op */
	bool capturing;	 /* its stream is being captured: it added a graph node and nothing ran */
	const uint64_t *words;
	unsigned word_cnt;
	unsigned cap_cnt; /* number of caps */

	/* annotations */
	unsigned has; /* enum event_has */
	uint64_t stream;
	uint64_t capture; /* call that began the capture of its stream; 0: none known */
	struct launch_info launch;
	/* EVENT_CALL, in outputs that wait for GPU times (sink/delivery/pending.h); else NULL. */
	const struct gpu_times *gpu_times;

	/* Many calls leave the following members empty: sink/delivery/items.c copies only what is
	 * set. */
	uint64_t size;
	uint64_t ptr;
	uint64_t cu_event; /* CUevent handle */
	enum copy_dir dir;
	double bandwidth_gbps; /* 1e9 bytes per second */

	/* EVENT_CALL: NULL if it has no stack. EVENT_STACK: the stack that the event defines. Live,
	 * it is valid during the call of the sink; from a file, as long as the reader. */
	const struct stack *stack;

	/* EVENT_CALL: the enclosing NVTX range; 0: none. range_text is NULL if it has no text or is
	 * redacted. */
	uint64_t range_id;
	const char *range_text;
	/* EVENT_CALL, EVENT_ALLOCATOR: the enclosing PyTorch operator; 0: none. operator is NULL if
	 * its name is unknown. */
	uint64_t operator_id;
	const char *operator;

	/* Most events leave the following members empty. */
	struct collective_info coll;
	bool has_mem; /* this event changed mem */
	struct mem_totals mem;

	uint32_t ioctl_cnt; /* driver ioctls, including those of nested calls */
	uint64_t ioctl_ns;
	uint64_t off_cpu_ns;   /* time in which its thread was not running */
	struct gemm_info gemm; /* HAS_GEMM */

	/* EVENT_GPU, EVENT_GPU_DEVICE: its device (model/devices.h), or NULL if unknown. Valid
	 * during the call of the sink. */
	const struct device *device;

	/* EVENT_DRIVER, EVENT_SCHED */
	const struct driver_info *drv;

	const struct event_text *text; /* read from a file; NULL: live */
	unsigned trace, clock;	       /* number and clock of its trace_info; live: 0 */
	uint64_t clock_error_ns;       /* of its trace_info */

	/* Only the first cap_cnt entries are set for calls: sink/delivery/items.c copies no
	 * more. */
	struct pointee caps[CT_MAX_CAPS];

	/* For code that copies calls. Kernel names have IDs, which change when another name reuses
	 * the same address; 0: no ID. */
	uint64_t kernel_id, kernel_mangled_id;
	bool has_comm16; /* comm has THREAD_COMM_SZ bytes and a NUL, with any content */
	bool plain;	 /* true: all members from coll on are empty; false: unknown */

	uint64_t generation; /* EVENT_PROCESS: ct_generation of the program */

	/* By kind. EVENT_UVM: processor 0 is the CPU, GPUs count from 1; ptr and size are the
	 * address and the bytes (HAS_PTR, HAS_SIZE). EVENT_TRACER: for level, name is the function;
	 * for lost, name is where, and from is NULL. */
	union {
#define EVENT(ID, id, type, flags, ops, text) struct event_##id id;
#include "events.def"
	};
	form_none nothing; /* place of members that an event does not store */
};

/* A call whose return was recorded: it has a duration and a result. */
static inline bool event_returned(const struct trace_event *ev)
{
	return !ev->unfinished && !ev->abandoned && !ev->entry_only;
}

/* Duration in nanoseconds; 0 if the clock did not advance. */
static inline uint64_t event_duration_ns(const struct trace_event *ev)
{
	return ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
}

static inline bool event_has_args(const struct trace_event *ev)
{
	return ev->text ? ev->text->args_len : ev->word_cnt;
}

/* Visits the annotations of an event as named values (size, ptr, direction, grid, kernel, ...), the
 * same for every sink. */
void event_visit_fields(const struct trace_event *ev, struct visitor *v);
/* Visits one of them. */
void event_visit_params(struct visitor *v, const char *name, const struct launch_params *params);
/* Visits the arguments of a call. */
void event_visit_args(const struct trace_event *ev, struct visitor *v);
/* Gets the number, handle or address in argument name ("dev", "ctx", "hStream"), live or saved.
 * Returns false if it is another type or was not read. Names of enums count as not read. */
bool event_arg_u64(const struct trace_event *ev, const char *name, uint64_t *val);

#endif /* MODEL_EVENT_H */
