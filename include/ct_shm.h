/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface between the library in the traced process (inject/) and the tracer (src/inject/).
 *
 * The library connects to the tracer's socket, sends a hello, and receives two memories: the
 * read-only settings, shared by all processes, and its own rings, shared only with the tracer. Then
 * it closes the socket, so that no descriptor stays open in the program. Its records are those of
 * ct_record.h, with what the specs (ct_spec.h) request. The interface has no locks and no waiting:
 * each thread has a slot and is its only writer; what does not fit is counted.
 *
 * The tracer validates everything in the rings. Fixed widths, sizes asserted.
 */
#ifndef CT_SHM_H
#define CT_SHM_H

#include "ct_bpf.h"
#include "ct_nv_bpf.h"

#define CT_SHM_MAGIC   0x63756474u /* "tduc" */
#define CT_SHM_VERSION 15

/* Environment of a traced program. "@name" is in the abstract namespace, others are paths. */
#define CT_ENV_SOCKET "CUDATRACE_SOCKET"
/* Name of the socket next to the library, where a daemon has put both (trace.gpu_time). */
#define CT_SHM_SOCKET "socket"
/* Number of system call filters (seccomp) of a traced command at its start. */
#define CT_ENV_FILTERS "CUDATRACE_FILTERS"
/* Path of a file next to the library, one for all tracers of a user: programs that cannot connect
 * append a struct ct_shm_lost_line. */
#define CT_ENV_LOST "CUDATRACE_LOST"
/* Previous value of CUDA_INJECTION64_PATH: the library loads it. */
#define CT_ENV_CHAIN "CUDATRACE_CHAIN"
/* If set, and not to "0": the library does nothing in this process, and no tracer loads it. */
#define CT_ENV_NO_INJECT "CUDATRACE_NO_INJECT"
/* Without a tracer: the output of the trace. */
#define CT_ENV_OUT "CUDATRACE_OUT"
/* Without a tracer: if set, and not to "0", trace with --kernel. */
#define CT_ENV_KERNEL "CUDATRACE_KERNEL"

/* How the library was loaded into the process. */
enum ct_shm_how {
	CT_SHM_INJECTION = 1, /* the driver loaded it (CUDA_INJECTION64_PATH) */
	CT_SHM_PRELOAD = 2,   /* the dynamic loader did (LD_PRELOAD) */
	CT_SHM_MORE = 3,      /* already connected: the process has one more library */
	CT_SHM_CHILD = 4,     /* a child of fork: the library was connected in its parent */
	CT_SHM_LATE = 5,      /* a tracer loaded it into the running process (ct_late.h) */
};

/* First message of the library (SOCK_SEQPACKET). The tracer gets the process id from the kernel. */
struct ct_shm_hello {
	__u32 magic, version;
	__u32 how; /* enum ct_shm_how */
	__u32 pid; /* as the process sees it */
	char comm[16];
	char lib_path[512]; /* of libcuda, or of libnccl (CT_SHM_MORE), as the process sees it */
};
_Static_assert(sizeof(struct ct_shm_hello) == 544, "ct_shm_hello is part of the ABI");

/* The reply. With status 0 it carries the descriptors of settings, rings and losses, except
 * CT_SHM_MORE. */
struct ct_shm_welcome {
	__u32 magic, version;
	__s32 status;	      /* 0; -errno: the process is not traced */
	__u32 again;	      /* not 0: already connected, from another dlmopen() namespace */
	__u64 set_sz, shm_sz; /* of the memories, in bytes */
	/* Random. A tracer that has loaded the library into the process has written the same there:
	 * its user may have no id in the process's user namespace. */
	__u64 token[2];
};
_Static_assert(sizeof(struct ct_shm_welcome) == 48, "ct_shm_welcome is part of the ABI");

/* Second message of the library: the functions that it has hooked. Then it closes the socket and
 * records calls. If functions have probes, too (ct_shm_set.probed), it first waits for struct
 * ct_shm_go. */
struct ct_shm_hooked {
	__u32 magic, version;
	__u32 slot_cnt;	   /* functions whose dispatch pointer leads to the library */
	__u32 pointer_cnt; /* functions for which it returns pointers of its own */
	__u32 nv_cnt;	   /* --kernel: pointers to functions of libc that lead to the library */
	__u32 reserved;
	__u64 hooked_ns;
	__u64 alive; /* address of a 4-byte word: not 0 while it records calls */
	__u64 is_hooked[CT_MAX_FUNCS / 64]; /* one bit per function id */
};
_Static_assert(sizeof(struct ct_shm_hooked) == 40 + CT_MAX_FUNCS / 8,
	       "ct_shm_hooked is part of the ABI");

/* The reply. */
struct ct_shm_go {
	__u32 magic, version;
};

/* Size of the names of all functions, each with its NUL. */
#define CT_SHM_NAMES_SZ (128 << 10)

/* --kernel: the data to copy from system calls into the driver. */
struct ct_shm_nv {
	__u32 wanted; /* 0: they are not traced */
	struct ct_nv_devs devs;
	__u32 plan_cnt, params_cnt;
	struct ct_nv_row plans[CT_NV_PLANS_MAX];
	struct ct_nv_params params[CT_NV_PARAMS_MAX];
};

/* --gpu-time: times of the GPU by CUPTI. */
enum ct_gpu_time {
	CT_GPU_TIME_OFF = 0,
	CT_GPU_TIME_GRAPHS = 1, /* a graph's launch is one record */
	CT_GPU_TIME_NODES = 2,	/* each node of a graph is one record */
};

/* State of CUPTI in a process. */
enum ct_cupti_state {
	CT_CUPTI_NONE = 0, /* not requested, or the driver is not initialised */
	CT_CUPTI_ON = 1,
	CT_CUPTI_MISSING = 2, /* no libcupti was found, or it lacks a function */
	CT_CUPTI_BAD = 3,     /* a version with known defects */
	CT_CUPTI_TAKEN = 4,   /* another subscriber exists: torch.profiler, nsys, ... */
	CT_CUPTI_FAILED = 5,  /* code is a CUptiResult, or -errno */
	CT_CUPTI_BUSY = 6,    /* there was no moment without a thread in the driver; who: why */
	CT_CUPTI_STATE_CNT
};

struct ct_shm_gpu {
	__u32 state;   /* enum ct_cupti_state; stored last (release) */
	__u32 version; /* CUPTI_API_VERSION of the library */
	__s32 code;
	__u32 request;	      /* ct_shm.gpu_request that state answers; 0: none */
	char who[64];	      /* TAKEN: the subscriber, if CUPTI names it; FAILED: the function */
	char path[256];	      /* of libcupti */
	__u64 given;	      /* not 0: the trace has ended and everything has been sent */
	__u64 records;	      /* records taken from CUPTI's buffers */
	__u64 dropped;	      /* dropped by CUPTI for lack of space */
	__u64 untimed;	      /* records without a plausible start or end */
	__u64 lost;	      /* dropped because the ring was full for too long */
	__u64 discarded;      /* bytes of records dropped for lack of a buffer */
	__u64 clock_error_ns; /* largest error so far of the conversion to CLOCK_MONOTONIC */
	__u64 clock_steps;    /* number of steps of CLOCK_REALTIME, the clock of CUPTI's times */
	__u64 since_ns;	      /* ON: time from which calls have records; 0: from the start */
};

#define CT_SHM_REQUEST_LOG 8

/* State of PC sampling in a process. */
enum ct_stalls_state {
	CT_STALLS_NONE = 0,	   /* not requested, or there is no context yet */
	CT_STALLS_ON = 1,	   /* a context is sampled */
	CT_STALLS_NO_CUPTI = 2,	   /* CUPTI does not work: see struct ct_shm_gpu */
	CT_STALLS_OLD = 3,	   /* this CUPTI cannot sample: version or functions */
	CT_STALLS_NO_NVPERF = 4,   /* libnvperf_host was not found */
	CT_STALLS_NO_RIGHTS = 5,   /* the process lacks the privilege */
	CT_STALLS_UNSUPPORTED = 6, /* not on this device */
	CT_STALLS_FAILED = 7,	   /* code is a CUptiResult, or -errno */
	CT_STALLS_STATE_CNT
};

/* Bits: events after the start of sampling. */
#define CT_STALLS_F_FULL   1 /* CUPTI's hardware buffer was full */
#define CT_STALLS_F_SHARED 2 /* another program samples the GPU */
#define CT_STALLS_F_SECOND 4 /* a second context of a GPU was not sampled */
#define CT_STALLS_F_ERROR  8 /* reading failed: code */

struct ct_shm_stalls {
	__u32 state; /* enum ct_stalls_state; stored last (release) */
	__u32 flags; /* CT_STALLS_F_* */
	__s32 code;
	__u32 period;	    /* 2^period cycles; 0: unknown */
	char who[64];	    /* the function that failed */
	__u64 samples;	    /* all, as CUPTI counts them */
	__u64 dropped;	    /* dropped by the hardware */
	__u64 unattributed; /* without a function: CUPTI calls them non-user kernels */
	__u64 refused;	    /* without room in the process's tables */
	__u64 lost;	    /* not sent: the ring was full for too long */
	__u64 contexts;	    /* contexts that were not sampled */
	__u64 no_code;	    /* functions without machine code */
};

/* Aligned to cache lines; most calls need only the first. */
union ct_shm_spec {
	struct ct_spec of;
	__u8 room[128];
} __attribute__((aligned(64)));

/* The settings. Members that change while programs run are written by single stores. */
struct ct_shm_set {
	__u32 magic, version;
	__u32 fn_cnt;	    /* ids below it have a name or are unused */
	__u32 others_level; /* enum ct_proc_level, not 0: of processes without a level */
	__u32 ended;	    /* 1: tracing has ended; the library restores what it changed */
	__u32 redact;	    /* enum ct_redact */
	__u64 beat_ns;	    /* the tracer's heartbeat: at least once a second */
	__u64 min_duration_ns;
	/* Time of the last change: a level of a function or process, a process added, or `ended`.
	 * Stored after the change (release). Never 0; each change has another value. */
	__u64 changed_ns;
	__u32 stack_max; /* maximum return addresses in a record; 0: sampled calls have none */
	__u32 probed;	 /* 1: functions without a dispatch pointer are left to probes */
	__u32 sample_seed;
	__u32 gpu_time;	 /* enum ct_gpu_time */
	__u32 stalls;	 /* --stalls: a sample each 2^stalls cycles; 0: off */
	__u32 python;	 /* 1: cudatrace_sampled() has a probe, which reads frames */
	char cupti[256]; /* --cupti: path of the library; "": search for it */
	/* offset of each function's name in names; 0: no such function */
	__u32 name_off[CT_MAX_FUNCS];
	union ct_shm_spec specs[CT_MAX_FUNCS];
	struct ct_shm_nv nv;
	__u64 results[CT_APIS_MAX][CT_RESULT_WORDS]; /* as in ct_cfg */
	char names[CT_SHM_NAMES_SZ];		     /* names[0] is NUL */
};

/* Without a heartbeat for this long, the library checks whether the tracer still exists. */
#define CT_SHM_STALE_NS 3000000000ull

/* In-process, a thread samples at most one call in this time. */
#define CT_SHM_SAMPLE_NS 1000000ull

/* Maximum threads of a process with a slot at the same time. */
#define CT_SHM_SLOTS 1024
/* Default size of a ring in bytes: a power of two. */
#define CT_SHM_RING_SZ (1u << 20)

enum ct_shm_state {
	CT_SLOT_FREE = 0, /* any thread may take it; earlier contents stay */
	CT_SLOT_LIVE = 1,
};

/* Number of failures of a counted function with one code. */
struct ct_shm_error {
	__u32 func_id; /* 0 and cnt 0: free */
	__s32 result;  /* or CT_RESULT_OTHER */
	__u64 cnt;
};
#define CT_SHM_ERRORS 64
#define CT_SHM_DEPTHS 16

/* Where a returned call without a record is counted. */
enum ct_shm_row {
	/* below CT_HIST_CNT: in its function's hist */
	CT_SHM_ROW_FILTERED = CT_HIST_CNT,
	CT_SHM_ROW_DROPPED, /* drops[CT_DROP_CALL] */
};
_Static_assert(CT_MAX_DEPTH < CT_SHM_DEPTHS, "frames in use are below");

/* State of one thread, in whole pages. Only the thread writes it, except tail. Counters grow. */
struct ct_shm_slot {
	__u32 state; /* enum ct_shm_state: taken by compare-and-swap */
	__u32 tid;   /* as the process sees it */
	/* Not 0: a record is being made; set before its clock is read. A call in a signal handler
	 * is then counted as CT_DROP_CALL, not recorded. */
	__u32 busy;
	__u32 reserved;
	__u64 head; /* bytes written so far, in whole records; stored last (release) */
	__u64 tail_seen;
	__u64 next_id; /* calls are numbered from 1 in each slot, across its threads */
	/* Calls that got a frame so far, times CT_SHM_DEPTHS, plus frames in use. One store updates
	 * both, so a killed thread has begun a call with its frame or not at all. stats has the
	 * entries of the other calls. */
	__u64 begun;
	__u8 pad[16];
	__u64 tail; /* bytes read so far; written by the tracer, in its own cache line */
	__u8 pad2[56];
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	__u64 cost_ns; /* estimated overhead of recording and counting in its threads */
	__u64 busiest; /* as in ct_totals */
	__u64 counted[CT_MAX_FUNCS / 64]; /* functions with a count in this slot */
	struct ct_shm_error errors[CT_SHM_ERRORS];
	/* Calls in flight, the outermost first. func_id of a call that has only begun may be read
	 * while it is written. lib_id and timed_ns are 0. For a call that has returned and is
	 * counted, found_ns is the row (enum ct_shm_row) and off_cpu_ns the row's value after
	 * counting; otherwise they are 0. */
	struct ct_frame frames[CT_MAX_DEPTH] __attribute__((aligned(64)));
	/* --kernel: a system call into the driver; in flight if active. */
	struct ct_nv_thread nv;
};

/* Returns the present value of the row in which a returned call was to be counted. c: its
 * function's count in this slot. */
static inline __u64 ct_shm_row(const struct ct_shm_slot *s, const struct ct_count *c,
			       const struct ct_frame *f)
{
	if (f->found_ns == CT_SHM_ROW_FILTERED)
		return s->stats[CT_STAT_FILTERED];
	if (f->found_ns == CT_SHM_ROW_DROPPED)
		return s->drops[CT_DROP_CALL];
	return f->found_ns < CT_HIST_CNT ? c->hist[f->found_ns] : 0;
}

static inline __u32 ct_shm_depth(const struct ct_shm_slot *s)
{
	return __atomic_load_n(&s->begun, __ATOMIC_ACQUIRE) % CT_SHM_DEPTHS;
}

/* The rings of a process: this header, and slot_cnt slots from slots_off on, `stride` bytes apart.
 * Each slot has struct ct_shm_slot, ring_sz bytes of records at ring_off, and struct ct_count of
 * each function id at counts_off. All bytes are 0 at first; pages are allocated on first write. */
struct ct_shm {
	__u32 magic, version;
	__u32 level; /* enum ct_proc_level, set by the tracer */
	__u32 slot_cnt;
	/* Set by the tracer: the process has installed a system call filter since it connected. The
	 * library then makes no system calls. */
	__u32 quiet;
	/* Set by the tracer: CUPTI is to be started in this running program, or stopped again:
	 * enum ct_gpu_time, and the number of the request << CT_SHM_REQUEST_LOG. */
	__u32 gpu_request;
	__u64 slots_off, stride;
	__s64 clock_offset_ns; /* set by the tracer: of the process's time namespace */
	__u64 ring_off, ring_sz, counts_off; /* from the slot's start; ring_sz is a power of two */
	/* Set by the tracer once it has the process's libnccl. */
	struct ct_comm_layout comm_layout;
	/* Written by the library: calls without a slot. */
	__u64 no_slot_cnt;
	struct ct_shm_gpu gpu;
	struct ct_shm_stalls stalls;
};

/* Why the library does not record a process, or stopped doing so. */
enum ct_shm_lost_why {
	CT_SHM_LOST_ANSWER, /* it cannot connect */
	CT_SHM_LOST_FILTER, /* a child of fork has a seccomp filter, and the library no system call
			     */
	CT_SHM_LOST_CLOCK,  /* the time stamp counter is disabled */
	CT_SHM_LOST_CNT
};

/* Losses of all processes of a user. Children of fork keep this mapping, to report that they
 * cannot connect: that needs no system call. All its processes may write it. */
struct ct_shm_lost {
	__u32 cnt[CT_SHM_LOST_CNT]; /* processes, by reason (enum ct_shm_lost_why) */
	__s32 error;		    /* CT_SHM_LOST_ANSWER: the last -errno */
	__u32 turn;		    /* set by the tracer: changes while it runs */
};
/* The name of this memory in /proc/PID/maps. */
#define CT_SHM_LOST_NAME "cudatrace-lost"
/* The name of an empty mapping, by which a process without this memory that cannot write to
 * CT_ENV_LOST either tells that it is not traced. */
#define CT_SHM_MARK "cudatrace-unconnected"
/* Size of the file. The largest page of arm64. */
#define CT_SHM_LOST_SZ (64 << 10)

/* One program that cannot connect. */
struct ct_shm_lost_line {
	char socket[56]; /* its tracer's */
	__u32 why;	 /* enum ct_shm_lost_why */
	__s32 error;
};

/*
 * A record in a ring begins at a multiple of 8 and is contiguous. Padding follows its rec.size
 * bytes up to the next multiple of 8. A record of kind CT_REC_NONE, which may have only 8 bytes
 * (size, kind, flags), fills the end of the ring. Other kinds are CT_REC_THREAD (first after a
 * thread took the slot, and whenever its name changes), CT_REC_NAME, CT_REC_CALL, CT_REC_NV,
 * CT_REC_GPU_RUN, CT_REC_DEVICE, those of ct_stall.h, and CT_SHM_REC_SHORT. pid, generation, lib_id
 * and an open file's name are 0: the tracer fills them in.
 */
#define CT_SHM_ALIGN 8
#define CT_SHM_REC_MAX                                                                             \
	(CT_CALL_FIXED_SZ + 8 * CT_MAX_WORDS + CT_OUT_SZ_MAX + CT_CAP_SZ_MAX + 8 * CT_STACK_MAX)
_Static_assert(sizeof(((struct ct_nv_thread *)0)->out) <= CT_SHM_REC_MAX, "it is a record, too");

/*
 * A short CT_REC_CALL: no system call into the driver, no stack, at most two pointees. Nearly all
 * calls qualify, and it halves the bytes that are written and moved to another processor. Members
 * of struct ct_call that are missing here are 0.
 */
#define CT_SHM_REC_SHORT  CT_REC_KIND_CNT
#define CT_SHM_SHORT_CAPS 2
struct ct_shm_short {
	__u32 size; /* as in struct ct_rec */
	__u16 kind;
	__u8 depth, api_depth;
	__u64 ts_ns;
	__u64 end_ns, call_id;
	__u32 tid;
	__s32 result;
	__u16 func_id;
	__u8 word_cnt, cap_cnt;
	__s16 cap_len[CT_SHM_SHORT_CAPS];
	__u64 words[]; /* preceded by parent_id if depth is not 0; followed by pointees */
};
_Static_assert(sizeof(struct ct_shm_short) == 48, "ct_shm_short is part of the ABI");
_Static_assert(CT_MAX_FUNCS <= 1 << 16, "func_id");

#endif /* CT_SHM_H */
