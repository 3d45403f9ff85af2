/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seam for records: what any producer makes (the BPF programs are one), and what it counts.
 * Fixed widths, sizes asserted.
 *
 * A record's meaning is added later (src/model/): here is only what was seen.
 */
#ifndef CT_RECORD_H
#define CT_RECORD_H

#include "ct_spec.h"

/* Times are CLOCK_MONOTONIC in nanoseconds (bpf_ktime_get_ns). Process and thread ids are those
 * that the tracer's /proc shows. */

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
 * stopped: end_ns is that moment, result means nothing. */
#define CT_CALL_F_UNFINISHED 1
/* Its frame was found above a newer call's on the stack: longjmp, an exception or thread
 * cancellation went through it. end_ns is when that was noticed. */
#define CT_CALL_F_ABANDONED 2
/* Its return was not looked at (CT_SPEC_F_NO_RETURN): end_ns is its start. */
#define CT_CALL_F_ENTRY_ONLY 4

#define CT_CALL_FIXED_SZ 112

/* Frames of a user stack; the outer ones of a deeper stack are cut off. */
#define CT_STACK_MAX 64

/* Frames of Python code; the outer ones of a deeper stack are cut off. */
#define CT_PYTHON_MAX 128

/* A frame: its code object's address, which object of those that lie there one after the other, and
 * the instruction in it. A struct ct_python_code comes before; model/python.h. */
struct ct_python_frame {
	__u64 code;
	__u32 id;  /* 0: not known */
	__u32 off; /* up to CPython 3.10 an index, then bytes; all ones: outside */
};

/* Of a call whose Python frames were asked for (ct_call.python). The process is known: it has a
 * Python, or none. */
#define CT_PYTHON_F_KNOWN 1
/* There are more frames than these. */
#define CT_PYTHON_F_CUT 2
/* One could not be read, and so those behind it. */
#define CT_PYTHON_F_BROKEN 4

/* What a code object is called, sent when a thread of the process first runs it in a call: as much
 * of its strings and of its line table as there is room for, as they lie in memory. */
#define CT_PYTHON_FILE_SZ     576
#define CT_PYTHON_FUNCTION_SZ 320
#define CT_PYTHON_TABLE_SZ    1056
struct ct_python_code {
	struct ct_rec rec;
	__u64 code;
	__u64 file_at, function_at, table_at; /* addresses of the objects */
	__u32 id;
	__s32 first_line;
	__u32 file_sz, function_sz, table_sz; /* bytes that were read; 0: not asked for */
	__u32 reserved;
	__u8 file[CT_PYTHON_FILE_SZ], function[CT_PYTHON_FUNCTION_SZ], table[CT_PYTHON_TABLE_SZ];
};
_Static_assert(sizeof(struct ct_python_code) == 2032, "ct_python_code is part of the ABI");

/* Bytes that could not be read: cap_len of a pointee is -errno then. 0: not tried. */
struct ct_call {
	struct ct_rec rec;
	__u64 end_ns;
	__u64 call_id;	 /* unique in the trace, never 0 */
	__u64 parent_id; /* the traced call that this thread was in already, or 0 */
	__u32 func_id;	 /* index into specs */
	__u32 lib_id;	 /* which library file: counts from 1 in the order of attachment */
	__s32 result;	 /* CUresult, or what the family has */
	__u8 depth;	 /* 0: not nested */
	__u8 word_cnt;
	__u8 cap_cnt;
	__u8 stack_cnt; /* --stack: frames, behind the pointees */
	/* --kernel: ioctls of the NVIDIA driver, those of nested calls too */
	__u32 ioctl_cnt;
	__u8 api_depth;	 /* as depth, of calls of the same family alone */
	__u8 python_cnt; /* --python: frames, behind those of the stack */
	__u8 python;	 /* CT_PYTHON_F_* */
	__u8 reserved2;
	__u64 ioctl_ns;
	__u64 off_cpu_ns;  /* --sched: its thread was not running */
	__u64 operator_id; /* --torch: call_id of the operator that it was made in, or 0 */
	__s16 cap_len[CT_MAX_CAPS];
	/* word_cnt are sent; pointees follow at words[word_cnt], then return addresses, from the
	 * call's own on; of an entry, that may be there twice; then struct ct_python_frame,
	 * innermost first */
	__u64 words[CT_MAX_WORDS];
};
_Static_assert(sizeof(struct ct_call) == CT_CALL_FIXED_SZ + 8 * CT_MAX_WORDS,
	       "ct_call is part of the ABI");

/* What begins a communicator of NCCL 2.21 and later (ncclComm.startMagic). */
#define CT_COMM_MAGIC 0x0280028002800280ull

/* NCCL counts what it launched by function (attach/find/comm_layout.h): broadcast, reduce,
 * all-gather, reduce-scatter, all-reduce. */
#define CT_COMM_COUNTS 5

/* The pointee CT_CAP_COMM: what lies in a communicator, from hash to nvml_device in this order,
 * where struct ct_comm_layout says. */
struct ct_comm {
	__u64 handle, magic;
	__u64 hash; /* the same in all of its ranks */
	__s32 rank, nranks, device, nvml_device;
	__u32 version; /* of the library, as ncclGetVersion has it */
	__u32 reserved;
	__u64 made; /* sum of NCCL's counts; 0: none, or not known */
};
_Static_assert(sizeof(struct ct_comm) == 56, "ct_comm is part of the ABI");

struct ct_task {
	struct ct_rec rec;
	__u32 parent_pid; /* CT_REC_FORK: who made it (rec.pid is the child) */
	__s32 exit_code;  /* CT_REC_EXIT: as in wait status */
	char comm[16];
	__u64 generation; /* ct_count.h; of the new program for CT_REC_EXEC */
};
_Static_assert(sizeof(struct ct_task) == 56, "ct_task is part of the ABI");

/* A call that is recorded when it returns has begun: what another producer sees of its thread until
 * then was made in it. Only where there is another. With begins nothing but that: a process that no
 * library sees is about to use the driver. */
struct ct_enter {
	struct ct_rec rec;
	__u64 call_id;
	__u32 api; /* the function's family */
	__u8 depth, api_depth;
	__u8 ended; /* 1: it has returned, and there is no record of it */
	__u8 begins;
};
_Static_assert(sizeof(struct ct_enter) == 40, "ct_enter is part of the ABI");

/* The process was stopped (SIGSTOP) until user space has attached: it belongs to the command that
 * cudatrace started. Send SIGCONT. */
#define CT_LIB_F_STOPPED 1
/* 32-bit process: its libraries cannot be traced. */
#define CT_LIB_F_COMPAT 2

struct ct_lib_map {
	struct ct_rec rec;
	__u64 ino;
	__u32 dev_major;
	__u32 dev_minor;
	char comm[16];
	char name[64]; /* last component of the path */
	__s32 fd;      /* the process's descriptor of it, at that moment */
	__u32 uid;     /* who started the process */
};
_Static_assert(sizeof(struct ct_lib_map) == 128, "ct_lib_map is part of the ABI");

/* Where the address of a kernel's name is in what its handle points to (model/kernel.h). */
#define CT_NAME_PTR_OFF 8
/* With its NUL. A name of this length may have been cut. */
#define CT_NAME_SZ_MAX 3072

/* Not a handle, but what ct_gpu_run.name_id stands for. */
#define CT_NAME_F_GPU 1

/* Comes before the record of the call that was given the handle, or that gave it out. */
struct ct_name {
	struct ct_rec rec;
	__u64 handle;
	__u32 len; /* of name, with its NUL; 0: there is no string that could be read */
	__u32 reserved;
	char name[];
};
_Static_assert(sizeof(struct ct_name) == 40, "ct_name is part of the ABI");

/* What a GPU executed, as CUPTI's activity records say (inject/gpu.c). */
enum ct_run_what { CT_RUN_KERNEL = 0, CT_RUN_COPY, CT_RUN_MEMSET, CT_RUN_GRAPH, CT_RUN_WHAT_CNT };

struct ct_gpu_run {
	struct ct_rec rec; /* tid: of the call; 0: not known */
	__u64 end_ns;
	__u64 sent_ns;
	__u64 call_ns; /* a moment in the call that asked for it; 0: not known */
	__u64 name_id; /* what a CT_REC_NAME with CT_NAME_F_GPU named; 0: none */
	__u64 bytes;
	__u64 graph_node; /* of a graph's node; 0: it is none */
	__u32 correlation;
	__u32 device, context, stream; /* CUPTI's numbers */
	__u32 what;		       /* enum ct_run_what */
	__u32 copy_kind;	       /* CUpti_ActivityMemcpyKind */
};
_Static_assert(sizeof(struct ct_gpu_run) == 96, "ct_gpu_run is part of the ABI");

/* What the driver says of a device that a GPU time is of, when the library asks it
 * (inject/device.c). A number is 0 and a text empty where it did not say. */
#define CT_DEVICE_TEXT_SZ 64
struct ct_device {
	struct ct_rec rec;
	__u32 device;	    /* as CUDA numbers it in that process */
	__u32 has;	    /* CT_DEVICE_HAS_* */
	__u8 uuid[16];	    /* of what the process computes on: the GPU, or its part (MIG) */
	__u8 gpu_uuid[16];  /* of the GPU */
	__u32 major, minor; /* compute capability */
	__u32 sm_cnt;	    /* multiprocessors */
	__u32 clock_khz;    /* of these, at most */
	char name[CT_DEVICE_TEXT_SZ];
	char pci[CT_DEVICE_TEXT_SZ];
};
#define CT_DEVICE_HAS_UUID     1
#define CT_DEVICE_HAS_GPU_UUID 2
_Static_assert(sizeof(struct ct_device) == 208, "ct_device is part of the ABI");

/* Why a record is missing; shown in the trace's end line. */
enum ct_drop {
	CT_DROP_CALL = 0,    /* ring full: a finished call */
	CT_DROP_TASK = 1,    /* ring full: process and thread records */
	CT_DROP_LIB = 2,     /* ring full: library mapping */
	CT_DROP_THREADS = 3, /* thread table full: call not seen */
	CT_DROP_DEPTH = 4,   /* more than CT_MAX_DEPTH nested calls: call not seen */
	CT_DROP_NV = 5,	     /* ring or table full: system calls into the driver, and its events */
	CT_DROP_COUNT = 6,   /* table of counts full: a call that was to be counted */
	CT_DROP_ERRORS = 7,  /* table of errors full: a counted call's error code */
	/* What its process or user may have of a table: the same as 3, 5 */
	CT_DROP_THREADS_SHARE = 8,
	CT_DROP_NV_SHARE = 9,
	/* Table of processes full, or what its user may have of it: a call or child not seen */
	CT_DROP_PROCESSES = 10,
	/* of the driver's log of context switches: its ring was full, or it made no sense */
	CT_DROP_CTXSW = 11,
	/* Of processes that trace themselves for a daemon: calls that their library, or what is in
	 * its place, reports as lost. Whatever it says, the others are exact. */
	CT_DROP_INPROC = 12,
	/* Ring full: the begin of a call, or its end, that calls of the library may be made in.
	 * Those have no parent then; the call itself is another record. */
	CT_DROP_BEGIN = 13,
	CT_DROP_CNT
};

/* Things worth counting that are no loss. */
enum ct_stat {
	CT_STAT_ENTRIES = 0,	/* calls that passed the filters */
	CT_STAT_ABANDONED = 1,	/* of those, never will (longjmp, exception, cancellation) */
	CT_STAT_UNFINISHED = 2, /* of those, ended with their thread or program */
	CT_STAT_FILTERED = 3,	/* returned, shorter than --min-duration */
	CT_STAT_ORPHANS = 4,	/* returns of calls that began before attaching */
	CT_STAT_DUPLICATES = 5, /* the same call seen through two attachments: counted once */
	CT_STAT_ENTRY_ONLY = 6, /* entries whose return is not looked at */
	CT_STAT_COUNTED = 7,	/* entries that are counted and no record, however they end */
	CT_STAT_CNT
};

/* What a producer counted. On the BPF side the value of the one-element `totals` map: counters of
 * threads that are gone, and losses that no thread state could count, added to atomically. */
struct ct_totals {
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	__u64 cost_ns;
	__u64 busiest; /* thread: share of a second, in millionths, << 32 | thread id */
};

#endif /* CT_RECORD_H */
