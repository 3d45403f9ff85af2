/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seam between the library in the traced process (inject/) and the tracer (src/inject/).
 *
 * The library connects to the tracer's socket, says who it is, and gets two memories: the settings,
 * which it can read only and which all processes share, and its own rings, which it shares with the
 * tracer alone. Then it closes the socket: nothing of it stays open in the program. Its records are
 * those of ct_record.h, with what specs (ct_spec.h) ask for. No lock is in it, and nobody waits:
 * each thread has a slot, and is the only one that writes to it; what does not fit is counted.
 *
 * The tracer believes nothing that is in the rings. Fixed widths, sizes asserted.
 */
#ifndef CT_SHM_H
#define CT_SHM_H

#include "ct_bpf.h"
#include "ct_nv_bpf.h"

#define CT_SHM_MAGIC   0x63756474u /* "tduc" */
#define CT_SHM_VERSION 10

/* Environment of a traced program. SOCKET: "@name" is in the abstract namespace, else a path. */
#define CT_ENV_SOCKET "CUDATRACE_SOCKET"
/* Beside the library, where a daemon has put both (trace.gpu_time). */
#define CT_SHM_SOCKET "socket"
/* Filters for system calls (seccomp) that a traced command has when it is started. */
#define CT_ENV_FILTERS "CUDATRACE_FILTERS"
/* What CUDA_INJECTION64_PATH was before: the library loads it. */
#define CT_ENV_CHAIN "CUDATRACE_CHAIN"
/* Without a tracer: where the trace goes. */
#define CT_ENV_OUT "CUDATRACE_OUT"
/* The same: set, and not to "0", it is a trace with --kernel. */
#define CT_ENV_KERNEL "CUDATRACE_KERNEL"

/* How the library came into the process. */
enum ct_shm_how {
	CT_SHM_INJECTION = 1, /* the driver loaded it (CUDA_INJECTION64_PATH) */
	CT_SHM_PRELOAD = 2,   /* the dynamic loader did (LD_PRELOAD) */
	CT_SHM_MORE = 3,      /* it has said so before: the process has one more library */
};

/* First message, of the library (SOCK_SEQPACKET). Of its process id the tracer asks the kernel. */
struct ct_shm_hello {
	__u32 magic, version;
	__u32 how; /* enum ct_shm_how */
	__u32 pid; /* as the process sees it */
	char comm[16];
	char lib_path[512]; /* of libcuda, or of libnccl (CT_SHM_MORE), as the process sees it */
};
_Static_assert(sizeof(struct ct_shm_hello) == 544, "ct_shm_hello is part of the ABI");

/* The answer; with status 0 there are two descriptors, but for CT_SHM_MORE: settings, rings. */
struct ct_shm_welcome {
	__u32 magic, version;
	__s32 status; /* 0; -errno: it is not traced */
	__u32 again;  /* not 0: it has connected before, from another namespace of dlmopen() */
	__u64 set_sz, shm_sz; /* of the memories, in bytes */
};
_Static_assert(sizeof(struct ct_shm_welcome) == 32, "ct_shm_welcome is part of the ABI");

/* Second message, of the library: what it has got hold of. Then it closes the socket, or, where
 * functions have probes, too (ct_shm_set.probed), waits for struct ct_shm_go, and records calls
 * from then on. */
struct ct_shm_hooked {
	__u32 magic, version;
	__u32 slot_cnt;	   /* functions whose dispatch pointer leads to the library */
	__u32 pointer_cnt; /* functions of which it hands out pointers of its own instead */
	__u32 nv_cnt;	   /* --kernel: pointers to functions of libc that lead to the library */
	__u32 reserved;
	__u64 hooked_ns;
	__u64 alive; /* address of a word of 4 bytes: not 0 while it records calls */
	__u64 is_hooked[CT_MAX_FUNCS / 64]; /* a bit for each function id */
};
_Static_assert(sizeof(struct ct_shm_hooked) == 40 + CT_MAX_FUNCS / 8,
	       "ct_shm_hooked is part of the ABI");

/* The answer. */
struct ct_shm_go {
	__u32 magic, version;
};

/* Room for the names of all functions, each with its NUL. */
#define CT_SHM_NAMES_SZ (128 << 10)

/* --kernel: what is copied of system calls into the driver. */
struct ct_shm_nv {
	__u32 wanted; /* 0: they are not looked at */
	struct ct_nv_devs devs;
	__u32 plan_cnt, params_cnt;
	struct ct_nv_row plans[CT_NV_PLANS_MAX];
	struct ct_nv_params params[CT_NV_PARAMS_MAX];
};

/* --gpu-time: times of the GPU by CUPTI. */
enum ct_gpu_time {
	CT_GPU_TIME_OFF = 0,
	CT_GPU_TIME_GRAPHS = 1, /* a graph's launch is one record */
	CT_GPU_TIME_NODES = 2,	/* each of its nodes is */
};

/* What became of it in a process. */
enum ct_cupti_state {
	CT_CUPTI_NONE = 0, /* not asked for, or the driver has not been initialised */
	CT_CUPTI_ON = 1,
	CT_CUPTI_MISSING = 2, /* no libcupti was found, or it lacks a function */
	CT_CUPTI_BAD = 3,     /* a version that is known to be wrong */
	CT_CUPTI_TAKEN = 4,   /* somebody else has subscribed: torch.profiler, nsys, ... */
	CT_CUPTI_FAILED = 5,  /* code is a CUptiResult, or -errno */
	CT_CUPTI_STATE_CNT
};

struct ct_shm_gpu {
	__u32 state;   /* enum ct_cupti_state; stored last (release) */
	__u32 version; /* CUPTI_API_VERSION of the library */
	__s32 code;
	__u32 reserved;
	char who[64];	      /* TAKEN: as far as CUPTI says; FAILED: in what */
	char path[256];	      /* of libcupti */
	__u64 given;	      /* not 0: the trace has ended, and all that was there has been sent */
	__u64 records;	      /* of CUPTI: all that was taken from buffers */
	__u64 dropped;	      /* CUPTI had no room */
	__u64 untimed;	      /* without a start or end that makes sense */
	__u64 lost;	      /* no room in the ring, for too long */
	__u64 discarded;      /* bytes of records that no buffer was there for */
	__u64 clock_error_ns; /* of the conversion to CLOCK_MONOTONIC, at most so far */
	__u64 clock_steps;    /* CLOCK_REALTIME, which CUPTI's times go by, was set */
};

/* In cache lines of its own, of which most calls need the first. */
union ct_shm_spec {
	struct ct_spec of;
	__u8 room[128];
} __attribute__((aligned(64)));

/* The settings. What changes while programs run is written by single stores. */
struct ct_shm_set {
	__u32 magic, version;
	__u32 fn_cnt;	    /* ids below it have a name, or are free */
	__u32 others_level; /* enum ct_proc_level: of processes without a level, not 0 */
	__u32 ended;   /* 1: nothing is wanted any more; the library puts back what it changed */
	__u32 redact;  /* enum ct_redact */
	__u64 beat_ns; /* the tracer is alive: at least once a second */
	__u64 min_duration_ns;
	/* When a level of a function or of a process was set last, a process was added, or ended
	 * was set: stored behind that (release). Never 0, another one each time. */
	__u64 changed_ns;
	__u32 stack_max; /* --stack: return addresses of a record */
	__u32 probed; /* 1: what has no dispatch pointer is seen by probes: the rest is left to them
		       */
	__u32 sample_seed;
	__u32 gpu_time;	 /* enum ct_gpu_time */
	char cupti[256]; /* --cupti: path of the library; "": it is looked for */
	/* where each function's name begins in names; 0: there is no such function */
	__u32 name_off[CT_MAX_FUNCS];
	union ct_shm_spec specs[CT_MAX_FUNCS];
	struct ct_shm_nv nv;
	__u64 results[CT_APIS_MAX][CT_RESULT_WORDS]; /* as in ct_cfg */
	char names[CT_SHM_NAMES_SZ];		     /* names[0] is NUL */
};

/* The tracer has not been heard of for so long: the library looks whether there still is one. */
#define CT_SHM_STALE_NS 3000000000ull

/* Threads of a process that have slots at a time. */
#define CT_SHM_SLOTS 1024
/* A ring's size in bytes, if not asked otherwise: a power of two. */
#define CT_SHM_RING_SZ (1u << 20)

enum ct_shm_state {
	CT_SLOT_FREE = 0, /* a thread that needs one may take it: what it wrote before stays */
	CT_SLOT_LIVE = 1,
};

/* How often a counted function failed with one code. */
struct ct_shm_error {
	__u32 func_id; /* 0 and cnt 0: free */
	__s32 result;  /* or CT_RESULT_OTHER */
	__u64 cnt;
};
#define CT_SHM_ERRORS 64
#define CT_SHM_DEPTHS 16

/* Where a call is counted that has returned and is no record. */
enum ct_shm_row {
	/* below CT_HIST_CNT: of its function's hist */
	CT_SHM_ROW_FILTERED = CT_HIST_CNT,
	CT_SHM_ROW_DROPPED, /* drops[CT_DROP_CALL] */
};
_Static_assert(CT_MAX_DEPTH < CT_SHM_DEPTHS, "frames in use are below");

/* A thread's own; in whole pages. Only the thread writes it, but for tail. Counters only grow. */
struct ct_shm_slot {
	__u32 state; /* enum ct_shm_state: taken by compare-and-swap */
	__u32 tid;   /* as the process sees it */
	/* Not 0: a record is being made; it was set before the clock was read for it. A call of a
	 * signal handler then is not recorded but counted as CT_DROP_CALL. */
	__u32 busy;
	__u32 reserved;
	__u64 head; /* bytes written so far, in whole records; stored last (release) */
	__u64 tail_seen;
	__u64 next_id; /* calls are numbered from 1 in each slot, whoever has it */
	/* Calls that got a frame so far, times CT_SHM_DEPTHS, and frames in use: one store says
	 * both, so that a thread that is killed had begun a call with its frame or not at all.
	 * stats has the entries of the others. */
	__u64 begun;
	__u8 pad[16];
	__u64 tail; /* bytes read so far; the tracer's, in a cache line of its own */
	__u8 pad2[56];
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	__u64 cost_ns;			  /* what recording and counting took its threads, about */
	__u64 busiest;			  /* as in ct_totals */
	__u64 counted[CT_MAX_FUNCS / 64]; /* functions that have a count in this slot */
	struct ct_shm_error errors[CT_SHM_ERRORS];
	/* Calls in flight, the outermost first; func_id of one that is no more than begun may be
	 * read while it is written. lib_id and timed are 0. Of one that has returned, and is
	 * counted somewhere, found_ns says where (enum ct_shm_row), and off_cpu_ns what is there
	 * when it has been; else that is 0. */
	struct ct_frame frames[CT_MAX_DEPTH] __attribute__((aligned(64)));
	/* --kernel: a system call into the driver, in flight if active. */
	struct ct_nv_thread nv;
};

/* What there is by now where a call that has returned was to be counted. c: its function's count,
 * in this slot. */
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

/* The rings of a process: this, and at slots_off slot_cnt slots, stride bytes from each other. Of
 * each: struct ct_shm_slot, at ring_off ring_sz bytes of records, at counts_off struct ct_count of
 * each function id. All of it is 0 at first, and no page is there that nobody wrote to. */
struct ct_shm {
	__u32 magic, version;
	__u32 level; /* enum ct_proc_level: the tracer's */
	__u32 slot_cnt;
	/* The tracer's: the process has put a filter on its own system calls since it connected.
	 * The library makes none any more. */
	__u32 quiet;
	__u32 reserved;
	__u64 slots_off, stride;
	__s64 clock_offset_ns;		     /* the tracer's: of the process's time namespace */
	__u64 ring_off, ring_sz, counts_off; /* from the slot's beginning; ring_sz a power of two */
	/* The tracer's, when it has been told of a libnccl. */
	struct ct_comm_layout comm_layout;
	/* The library's: calls that found no slot. */
	__u64 no_slot_cnt;
	struct ct_shm_gpu gpu;
};

/*
 * A record in a ring begins at a multiple of 8 and lies in one piece. rec.size says how long it is,
 * and is followed by so many bytes that the next begins at a multiple of 8. One of kind
 * CT_REC_NONE, which may be of 8 bytes only (size, kind, flags), fills the end of the ring. Records
 * are CT_REC_THREAD, the first after a thread has got the slot and whenever it has another name,
 * CT_REC_NAME, CT_REC_CALL, CT_REC_NV, CT_REC_GPU_RUN, CT_REC_DEVICE, and CT_SHM_REC_SHORT. pid,
 * life, lib_id and an open file's name are 0: the tracer knows.
 */
#define CT_SHM_ALIGN 8
#define CT_SHM_REC_MAX                                                                             \
	(CT_CALL_FIXED_SZ + 8 * CT_MAX_WORDS + CT_OUT_SZ_MAX + CT_CAP_SZ_MAX + 8 * CT_STACK_MAX)
_Static_assert(sizeof(((struct ct_nv_thread *)0)->out) <= CT_SHM_REC_MAX, "it is a record, too");

/*
 * CT_REC_CALL of a call that made no system call into the driver, and has no stack and two pointees
 * at most: so are nearly all, and half as much has to be fetched, written and given to another
 * processor for them. What is not here is 0 in struct ct_call.
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
	__u64 words[]; /* before them parent_id, if depth is not 0; and pointees, as there */
};
_Static_assert(sizeof(struct ct_shm_short) == 48, "ct_shm_short is part of the ABI");
_Static_assert(CT_MAX_FUNCS <= 1 << 16, "func_id");

#endif /* CT_SHM_H */
