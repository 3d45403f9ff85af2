/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What sinks and reports see: one decoded event with its meaning. Nothing here points into the
 * ring after the sink's function has returned.
 */
#ifndef MODEL_EVENT_H
#define MODEL_EVENT_H

#include "decode/value.h"

/* What the rows of events.def make: EVENT_CALL, EVENT_PROCESS, ... */
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
/* Of the calls of a class. */
enum event_type event_type_of(enum api_class c);

struct launch_info {
	uint32_t grid[3], block[3];
	uint32_t cluster[3]; /* 0: none given */
	uint32_t shared_mem_sz;
	bool has_config; /* false: the launch configuration could not be read */
	bool cooperative;
	uint64_t func;	    /* handle */
	const char *kernel; /* demangled; NULL when unknown */
	const char *kernel_mangled;
	bool kernel_guessed; /* read through the handle, not seen in a lookup call */
};

/* A call of NCCL. */
struct collective_info {
	uint64_t count;
	uint64_t bytes;	       /* S of nccl-tests */
	uint64_t hash;	       /* of the communicator, in all of its ranks the same */
	uint32_t rank, nranks; /* nranks 0: not known */
	uint64_t seq; /* from 1: of the communicator's collectives in this rank; 0: it is none */
	bool seq_partial;		  /* as struct comm has it: some are not counted */
	const char *datatype, *redop;	  /* NULL: none */
	const char *algorithm, *protocol; /* NULL: not known */
	int32_t peer;			  /* or root */
	uint64_t group;	  /* id of the call that begins its group; 0: it is in none */
	uint32_t grouped; /* the end of a group: calls that it was the end of */
};

/* A product of matrices: C is m by n, k is between A and B. Types as cudaDataType names them; NULL:
 * not known. */
struct gemm_info {
	uint64_t m, n, k, batch;
	uint64_t flops; /* 0: none, or the call is in one that has them */
	const char *a_type, *b_type, *c_type, *compute_type;
};

/* Which optional members of struct trace_event hold something. */
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

/* When GPUs executed what a call asked for (--gpu-time). */
struct gpu_times {
	uint64_t start_ns; /* of the first */
	uint64_t queue_ns; /* from the call's start to that */
	uint64_t ns;	   /* of all together */
	uint64_t cnt;	   /* 0: none has come */
};

struct nv_ioctl;
struct nv_sched;
struct device;

/* A system call into the NVIDIA driver. */
struct driver_info {
	const char *device;	      /* "nvidiactl", "nvidia0", "nvidia-uvm", ... */
	const struct nv_ioctl *io;    /* decoded; NULL for open, close, mmap, poll */
	const char *object_class;     /* of the object that the command is about; NULL: not known */
	const struct nv_sched *sched; /* EVENT_SCHED */
	const char *sched_values;     /* EVENT_SCHED: "timesliceUs=2000"; NULL: not read */
	uint64_t call_id;	      /* CUDA call that the thread was in; 0: none */
	const char *call;	      /* its public name */
	uint32_t cmd;
	int32_t fd; /* -1: not known */
	int64_t ret;
	uint64_t address, length; /* mmap */
};

/* A return address, or a frame of Python code: then module is its file, and symbol its function;
 * with neither, ip is the code object, whose names could not be read. */
struct stack_frame {
	uint64_t ip;
	uint64_t offset;      /* the address in its module, as addr2line wants it */
	const char *module;   /* path, "[anon]", ...; NULL: nothing is known to be there */
	const char *build_id; /* NULL: none */
	const char *symbol;   /* "name+0x12"; NULL: not known */
	uint32_t python;      /* 1: it is one of Python code */
	uint32_t line;	      /* of it; 0: not known */
};

/* Who made a call, and who called them. One per process and content. */
struct stack {
	uint64_t id; /* unique in the trace, from 1 */
	unsigned frame_cnt;
	struct stack_frame frames[]; /* innermost first */
};

/* Members of an event that was read from a file, as they stand there: "key":value,... without the
 * braces. */
struct event_text {
	const char *fields; /* what event_visit_fields() gave */
	size_t fields_len;
	const char *args; /* inside of "args" */
	size_t args_len;
};

/* Of a value that may not be known. */
struct opt_u64 {
	uint64_t v;
	bool known;
};

/* form_u32, ...: what forms.def has for each form. */
typedef uint32_t form_dim3[3];
typedef struct {
} form_none;
#define FORM(form, c_type, schema) typedef c_type form_##form;
#include "forms.def"

/* What only one kind of events has: struct event_xid, ... */
#define EVENT(ID, id, type, flags, ops, text) struct event_##id {
#define OWN(id, form, name, when, unit, text) form_##form name;
#define ROW(id, where, form, name, place, value, when, unit, text)
#define END(id)                                                                                    \
	}                                                                                          \
	;
#include "events.def"

/* A thread's name as the kernel keeps it, with a NUL behind it. */
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
	unsigned api_depth; /* the same, of calls of its family alone */
	unsigned lib_id;
	int32_t result;
	bool unfinished, abandoned;
	bool entry_only; /* its return was not looked at: no result, no end */
	bool is_error;	 /* result is a failure; CUDA_ERROR_NOT_READY is none */
	uint8_t made;	 /* memory: 1 + enum block_kind of what it makes; 0: what its op says */
	bool capturing;	 /* its stream captures: a graph node, not a run */
	const uint64_t *words;
	unsigned word_cnt;
	unsigned cap_cnt; /* of caps */

	/* meaning */
	unsigned has; /* enum event_has */
	uint64_t stream;
	uint64_t
		capture; /* id of the call that began the capture of its stream; 0: none is known */
	struct launch_info launch;
	/* EVENT_CALL, in an output that waits for them (sink/delivery/pending.h); NULL: in no
	 * other. */
	const struct gpu_times *gpu_times;

	/* From here on many calls have nothing: sink/delivery/items.c copies what they have. */
	uint64_t size;
	uint64_t ptr;
	uint64_t cu_event; /* CUevent handle */
	enum copy_dir dir;
	double bandwidth_gbps; /* 1e9 bytes per second */

	/* EVENT_CALL: NULL when it has none. EVENT_STACK: what is defined. Live, it is valid during
	 * the call of the sink; read from a file, as long as the reader. */
	const struct stack *stack;

	/* EVENT_CALL: the NVTX range that it was made in; 0: none. text NULL: it has none, or is
	 * redacted. */
	uint64_t range_id;
	const char *range_text;
	/* EVENT_CALL, EVENT_ALLOCATOR: PyTorch's operator that it was made in; 0: none. NULL: its
	 * name is not known. */
	uint64_t operator_id;
	const char *operator;

	/* And from here on most have nothing. */
	struct collective_info coll;
	bool has_mem; /* mem changed with this event */
	struct mem_totals mem;

	uint32_t ioctl_cnt; /* ioctls of the driver, those of nested calls too */
	uint64_t ioctl_ns;
	uint64_t off_cpu_ns;   /* its thread was not running */
	struct gemm_info gemm; /* HAS_GEMM */

	/* EVENT_GPU, EVENT_GPU_DEVICE: what is known of its device (model/devices.h); NULL:
	 * nothing. Valid during the call of the sink. */
	const struct device *device;

	/* EVENT_DRIVER, EVENT_SCHED */
	const struct driver_info *drv;

	const struct event_text *text; /* read from a file; NULL: live */
	unsigned trace, clock;	       /* number and clock of its trace_info; live: 0 */

	/* Calls have nothing behind those of their caps that are there: sink/delivery/items.c
	 * copies no more.
	 */
	struct pointee caps[CT_MAX_CAPS];

	/* For who copies calls. The names of a kernel have numbers, so that another at the same
	 * place is known to be another; 0: they have none. */
	uint64_t kernel_id, kernel_mangled_id;
	bool has_comm16; /* comm has THREAD_COMM_SZ bytes and a NUL, whatever is in them */
	bool plain;	 /* it has nothing from coll on; false: it may have nothing */

	uint64_t generation; /* EVENT_PROCESS: which of those that had this process id:
				ct_generation */

	/* By kind. EVENT_UVM: processors are 0 for the CPU, GPUs from 1; address and bytes are ptr
	 * and size (HAS_PTR, HAS_SIZE). EVENT_TRACER: level: name is the function; lost: where, and
	 * from is NULL. */
	union {
#define EVENT(ID, id, type, flags, ops, text) struct event_##id id;
#include "events.def"
	};
	form_none nothing; /* place of what an event does not hold */
};

/* A call that was seen to return: it has a duration and a result. */
static inline bool event_returned(const struct trace_event *ev)
{
	return !ev->unfinished && !ev->abandoned && !ev->entry_only;
}

/* Duration in nanoseconds; 0 when the clock went nowhere. */
static inline uint64_t event_duration_ns(const struct trace_event *ev)
{
	return ev->end_ns > ev->start_ns ? ev->end_ns - ev->start_ns : 0;
}

static inline bool event_has_args(const struct trace_event *ev)
{
	return ev->text ? ev->text->args_len : ev->word_cnt;
}

/* The meaning of an event as named values (size, ptr, direction, grid, kernel, ...), the same for
 * every sink. */
void event_visit_fields(const struct trace_event *ev, struct visitor *v);
/* The arguments of a call. */
void event_visit_args(const struct trace_event *ev, struct visitor *v);
/* The number, handle or address that is the value of argument name ("dev", "ctx", "hStream"), live
 * or saved; false when it is none or was not read. Names of enums count as not read. */
bool event_arg_u64(const struct trace_event *ev, const char *name, uint64_t *val);

#endif /* MODEL_EVENT_H */
