/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface for records that producers (such as the BPF programs) send, and for their counters.
 * Fixed widths, sizes asserted.
 *
 * A record contains only what was observed. src/model/ adds the meaning.
 */
#ifndef CT_RECORD_H
#define CT_RECORD_H

#include "ct_spec.h"

/* Times are CLOCK_MONOTONIC in nanoseconds (bpf_ktime_get_ns). Process and thread ids are those of
 * the tracer's /proc. */

enum ct_rec_kind {
	CT_REC_NONE = 0,
#define REC(ID, id, size) CT_REC_##ID,
#include "ct_rec.def"
	CT_REC_KIND_CNT
};

/* First bytes of every record. */
struct ct_rec {
	__u32 size; /* of the whole record, in bytes */
	__u16 kind; /* enum ct_rec_kind */
	__u16 flags;
	__u64 ts_ns; /* start of what it describes */
	__u32 pid;   /* process (thread group) id */
	__u32 tid;
};
_Static_assert(sizeof(struct ct_rec) == 24, "ct_rec is part of the ABI");

/* The call had not returned when its thread ended, its process ran another program, or the trace
 * stopped. end_ns is that moment; result is meaningless. */
#define CT_CALL_F_UNFINISHED 1
/* The call was abandoned: its frame was found above a newer call's on the stack, because longjmp,
 * an exception or thread cancellation went through it. end_ns is when this was noticed. */
#define CT_CALL_F_ABANDONED 2
/* The return is not probed (CT_SPEC_F_NO_RETURN): end_ns is the start. */
#define CT_CALL_F_ENTRY_ONLY 4
/* Chosen for the profile (ct_cfg.profile). Its process may be at CT_PROC_METRICS. */
#define CT_CALL_F_SAMPLED 8
/* The number was first that of a call without a record, for which CT_REC_SAMPLE may have been
 * sent. */
#define CT_CALL_F_REUSED 16

#define CT_CALL_FIXED_SZ 112

/* Maximum frames of a user stack; outer frames beyond it are cut off. */
#define CT_STACK_MAX 64

/* Maximum frames of Python code; outer frames beyond it are cut off. */
#define CT_PYTHON_MAX 128

/* A frame: address of its code object, which of the successive objects at that address, and the
 * instruction in it. A struct ct_python_code is sent before; see model/python.h. */
struct ct_python_frame {
	__u64 code;
	__u32 id;  /* 0: unknown */
	__u32 off; /* index up to CPython 3.10, then bytes; all ones: outside the code object */
};

/* Flags of a call with Python frames (ct_call.python). It is known whether there is a Python. */
#define CT_PYTHON_F_KNOWN 1
/* There are more frames than these. */
#define CT_PYTHON_F_CUT 2
/* A frame could not be read, so the frames after it are missing. */
#define CT_PYTHON_F_BROKEN 4

/* Names of a code object, sent when a thread of the process first runs it in a call. Its strings
 * and line table are copied raw, as far as they fit. */
#define CT_PYTHON_FILE_SZ     576
#define CT_PYTHON_FUNCTION_SZ 320
#define CT_PYTHON_TABLE_SZ    1056
struct ct_python_code {
	struct ct_rec rec;
	__u64 code;
	__u64 file_at, function_at, table_at; /* addresses of the objects */
	__u32 id;
	__s32 first_line;
	__u32 file_sz, function_sz, table_sz; /* bytes read; 0: not requested */
	__u32 reserved;
	__u8 file[CT_PYTHON_FILE_SZ], function[CT_PYTHON_FUNCTION_SZ], table[CT_PYTHON_TABLE_SZ];
};
_Static_assert(sizeof(struct ct_python_code) == 2032, "ct_python_code is part of the ABI");

/* A recorded call. If bytes of a pointee could not be read, its cap_len is -errno. 0: not tried. */
struct ct_call {
	struct ct_rec rec;
	__u64 end_ns;
	__u64 call_id;	 /* unique in the trace, never 0 */
	__u64 parent_id; /* the enclosing traced call of this thread, or 0 */
	__u32 func_id;	 /* index into specs */
	__u32 lib_id;	 /* library file, numbered from 1 in the order of attachment */
	__s32 result;	 /* CUresult, or the family's result type */
	__u8 depth;	 /* 0: not nested */
	__u8 word_cnt;
	__u8 cap_cnt;
	__u8 stack_cnt; /* --stack: number of frames, after the pointees */
	/* --kernel: ioctls of the NVIDIA driver, nested calls included */
	__u32 ioctl_cnt;
	__u8 api_depth;	 /* as depth, but only calls of the same family */
	__u8 python_cnt; /* --python: number of frames, behind those of the stack */
	__u8 python;	 /* CT_PYTHON_F_* */
	__u8 reserved2;
	__u64 ioctl_ns;
	__u64 off_cpu_ns;  /* --sched: time its thread was off the CPU */
	__u64 operator_id; /* --torch: call_id of the enclosing operator, or 0 */
	__s16 cap_len[CT_MAX_CAPS];
	/* word_cnt words are sent. Pointees follow at words[word_cnt]. Then come return addresses,
	 * starting with the call's own, which may appear twice in an entry-only record. Last come
	 * struct ct_python_frame, innermost first. */
	__u64 words[CT_MAX_WORDS];
};
_Static_assert(sizeof(struct ct_call) == CT_CALL_FIXED_SZ + 8 * CT_MAX_WORDS,
	       "ct_call is part of the ABI");

/* CT_REC_SAMPLE: these bits of call_id are those of the library's call, and depth is the number of
 * its frame. */
#define CT_SAMPLE_ID_MASK 0xffff

/* Start of a communicator of NCCL 2.21 and later (ncclComm.startMagic). */
#define CT_COMM_MAGIC 0x0280028002800280ull

/* NCCL counts its launches by function (attach/find/comm_layout.h): broadcast, reduce, all-gather,
 * reduce-scatter, all-reduce. */
#define CT_COMM_COUNTS 5

/* The pointee CT_CAP_COMM: fields of a communicator, from hash to nvml_device in this order, at the
 * offsets in struct ct_comm_layout. */
struct ct_comm {
	__u64 handle, magic;
	__u64 hash; /* the same in all of its ranks */
	__s32 rank, nranks, device, nvml_device;
	__u32 version; /* of the library, as ncclGetVersion returns it */
	__u32 reserved;
	__u64 made; /* sum of NCCL's counts; 0: none, or unknown */
};
_Static_assert(sizeof(struct ct_comm) == 56, "ct_comm is part of the ABI");

/* The pointee CT_CAP_PARAMS: the parameters of a launched kernel. cnt struct ct_param follow, in
 * the order of the parameters, and then their values without gaps: the first CT_PARAMS_SZ_MAX
 * bytes. */
#define CT_PARAMS_MAX	 32
#define CT_PARAMS_SZ_MAX 256
/* Sizes and offsets are not known; or the kernel has no parameters. */
#define CT_PARAMS_F_UNKNOWN 1
/* The kernel has more parameters than CT_PARAMS_MAX. */
#define CT_PARAMS_F_MORE 2
struct ct_params {
	__u16 cnt;
	__u16 flags;
	__u32 reserved;
};
/* off, in the kernel's parameter buffer, is below 32 KiB (CUDA 12.1). */
#define CT_PARAM_F_MISSING 0x8000 /* in off: its value could not be read, and is omitted */
struct ct_param {
	__u16 off, size;
};
_Static_assert(sizeof(struct ct_params) == 8 && sizeof(struct ct_param) == 4,
	       "ct_params is part of the ABI");

struct ct_task {
	struct ct_rec rec;
	__u32 parent_pid; /* CT_REC_FORK: the parent (rec.pid is the child) */
	__s32 exit_code;  /* CT_REC_EXIT: as in wait status */
	char comm[16];
	__u64 generation; /* ct_count.h; CT_REC_EXEC: of the new program */
};
_Static_assert(sizeof(struct ct_task) == 56, "ct_task is part of the ABI");

/* A call that will be recorded on return has begun. Records of another producer for this thread
 * belong to it until it ends. Sent only when there is another producer. If `begins` is set: a
 * process without a library is about to use the driver, and the other members are unused. */
struct ct_enter {
	struct ct_rec rec;
	__u64 call_id;
	__u16 api; /* the function's family */
	__u16 func_id;
	__u8 depth, api_depth;
	__u8 ended; /* 1: it has returned without a record */
	__u8 begins;
};
_Static_assert(sizeof(struct ct_enter) == 40, "ct_enter is part of the ABI");

/* The process is stopped (SIGSTOP) until user space has attached, because it belongs to the command
 * that cudatrace started. Send SIGCONT. */
#define CT_LIB_F_STOPPED 1
/* 32-bit process: its libraries cannot be traced. */
#define CT_LIB_F_COMPAT 2
/* It would be stopped, but its parent would detect it (bpf/stop.bpf.h). */
#define CT_LIB_F_RUNS 4

struct ct_lib_map {
	struct ct_rec rec;
	__u64 ino;
	__u32 dev_major;
	__u32 dev_minor;
	char comm[16];
	char name[64]; /* last component of the path */
	__s32 fd;      /* the process's descriptor of the file at that moment */
	__u32 uid;     /* user of the process */
};
_Static_assert(sizeof(struct ct_lib_map) == 128, "ct_lib_map is part of the ABI");

/* Offset of a kernel's name pointer in what its handle points to (model/kernel.h). */
#define CT_NAME_PTR_OFF 8
/* Includes the NUL. A name of this length may be truncated. */
#define CT_NAME_SZ_MAX 3072

/* handle is a ct_gpu_run.name_id, not a kernel handle. */
#define CT_NAME_F_GPU 1

/* Name of a kernel. Sent before the record of the call that takes or returns the handle. */
struct ct_name {
	struct ct_rec rec;
	__u64 handle;
	__u32 len; /* length of name with its NUL; 0: no readable string */
	__u32 reserved;
	char name[];
};
_Static_assert(sizeof(struct ct_name) == 40, "ct_name is part of the ABI");

/* Work that a GPU executed, from CUPTI's activity records (inject/gpu.c). */
enum ct_run_what { CT_RUN_KERNEL = 0, CT_RUN_COPY, CT_RUN_MEMSET, CT_RUN_GRAPH, CT_RUN_WHAT_CNT };

struct ct_gpu_run {
	struct ct_rec rec; /* tid: of the call; 0: unknown */
	__u64 end_ns;
	__u64 sent_ns;
	__u64 call_ns;	  /* a time within the call that requested it; 0: unknown */
	__u64 name_id;	  /* handle of a CT_REC_NAME with CT_NAME_F_GPU; 0: none */
	__u64 bytes;	  /* moved; kernel: static shared memory of a block */
	__u64 graph_node; /* node of a graph; 0: not of a graph */
	__u32 correlation;
	__u32 device, context, stream; /* CUPTI's numbers */
	__u32 what;		       /* enum ct_run_what */
	__u16 copy_kind;	       /* CUpti_ActivityMemcpyKind */
	__u16 registers;	       /* kernel: of a thread; 0: unknown */
};
_Static_assert(sizeof(struct ct_gpu_run) == 96, "ct_gpu_run is part of the ABI");

/* The driver's description of a device in a GPU time, queried by the library (inject/device.c).
 * Numbers are 0 and texts empty where the driver returned nothing. */
#define CT_DEVICE_TEXT_SZ 64
struct ct_device {
	struct ct_rec rec;
	__u32 device;	    /* CUDA's number of it in that process */
	__u32 has;	    /* CT_DEVICE_HAS_* */
	__u8 uuid[16];	    /* of the device in use: the GPU, or its MIG instance */
	__u8 gpu_uuid[16];  /* of the GPU */
	__u32 major, minor; /* compute capability */
	__u32 sm_cnt;	    /* multiprocessors */
	__u32 clock_khz;    /* their maximum clock */
	char name[CT_DEVICE_TEXT_SZ];
	char pci[CT_DEVICE_TEXT_SZ];
	__u32 memory_khz, bus_bits; /* memory: maximum clock, width of its bus */
};
#define CT_DEVICE_HAS_UUID     1
#define CT_DEVICE_HAS_GPU_UUID 2
_Static_assert(sizeof(struct ct_device) == 216, "ct_device is part of the ABI");

/* Why a record is missing. The trace's end line shows these counts. */
enum ct_drop {
	CT_DROP_CALL = 0,    /* ring full: a finished call */
	CT_DROP_TASK = 1,    /* ring full: process and thread records */
	CT_DROP_LIB = 2,     /* ring full: library mapping */
	CT_DROP_THREADS = 3, /* thread table full: the call is not traced */
	CT_DROP_DEPTH = 4,   /* more than CT_MAX_DEPTH nested calls: the call is not traced */
	CT_DROP_NV = 5,	     /* ring or table full: system calls into the driver, and its events */
	CT_DROP_COUNT = 6,   /* table of counts full: a call to be counted */
	CT_DROP_ERRORS = 7,  /* table of errors full: a counted call's error code */
	/* Process or user over its share of a table: as 3 and 5 */
	CT_DROP_THREADS_SHARE = 8,
	CT_DROP_NV_SHARE = 9,
	/* Table of processes full, or the user over its share: a call or child is not traced */
	CT_DROP_PROCESSES = 10,
	/* the driver's log of context switches: its ring was full, or a record was invalid */
	CT_DROP_CTXSW = 11,
	/* Processes that trace themselves for a daemon: calls that their library reports as
	 * dropped. A forged report cannot change the other counters. */
	CT_DROP_INPROC = 12,
	/* Ring full: begin or end of a call that may enclose calls of the library, which have no
	 * parent then, or CT_REC_SAMPLE. The call itself is another record. */
	CT_DROP_BEGIN = 13,
	/* Samples of hardware counters: a buffer was full, or they could not be read */
	CT_DROP_PM = 14,
	CT_DROP_CNT
};

/* Counters of events that are not losses. */
enum ct_stat {
	CT_STAT_ENTRIES = 0,   /* calls that passed the filters */
	CT_STAT_ABANDONED = 1, /* calls that will never return (longjmp, exception, cancellation) */
	CT_STAT_UNFINISHED = 2, /* calls that ended with their thread or program */
	CT_STAT_FILTERED = 3,	/* returned calls shorter than --min-duration */
	CT_STAT_ORPHANS = 4,	/* returns of calls that began before attaching */
	CT_STAT_DUPLICATES = 5, /* the same call seen through two attachments: counted once */
	CT_STAT_ENTRY_ONLY = 6, /* entry-only calls */
	CT_STAT_COUNTED = 7,	/* entries that are counted without a record, however they end */
	CT_STAT_SAMPLE_NS = 8,	/* time for records of sampled calls, for profiles */
	CT_STAT_CNT
};

/* Counters of a producer. On the BPF side: the value of the one-element `totals` map, with the
 * counters of ended threads and of losses without a thread state. Updated atomically. */
struct ct_totals {
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	__u64 cost_ns;
	__u64 busiest; /* of one thread: share of a second, in millionths, << 32 | thread id */
};

#endif /* CT_RECORD_H */
