/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Interface between the BPF programs and their loader: values in shared maps and settings. Records
 * are in ct_record.h. Fields have fixed widths, with asserted sizes where it matters. Both sides
 * include this file.
 */
#ifndef CT_BPF_H
#define CT_BPF_H

#include "ct_nv.h"

/* Maximum depth of nested calls that are distinguished in one thread. libcuda 580 nests at most 3
 * deep. */
#define CT_MAX_DEPTH 8

/* The call is counted: call_id is that of its enclosing call. */
#define CT_FRAME_F_COUNTED 1
/* Not a frame: the slot above the last frame, which describes the newest call without a return. */
#define CT_FRAME_F_ENTRY_ONLY 2
/* CT_SPEC_F_DEEP */
#define CT_FRAME_F_DEEP 4
/* CT_CALL_F_SAMPLED */
#define CT_FRAME_F_SAMPLED 8
/* CT_CALL_F_REUSED */
#define CT_FRAME_F_REUSED 16

#define CT_REGS_RETS 32

/* Position of a thread in its program. For a running thread: where it last entered the kernel. */
struct ct_regs {
	__u32 pid, tid; /* requested by user space */
	__u64 ip, sp, fp;
	__u64 tls; /* x86: pthread_self() */
	__u32 seen, runs;
	/* Original return addresses, which the kernel replaced on the stack for return probes. */
	__u32 ret_cnt, pad;
	struct ct_ret {
		__u64 at, ip;
	} rets[CT_REGS_RETS];
};
/* Threads examined at once. */
#define CT_REGS_MAX 16

/* The nth of a thread's system call filters (seccomp), the newest first. */
#define CT_FILTERS_MAX	     64
#define CT_FILTER_LEN_MAX    4096 /* BPF_MAXINSNS */
#define CT_FILTER_NONE	     (-1)
#define CT_FILTER_UNREADABLE (-2)
struct ct_filter {
	__u32 pid, tid, nth; /* requested by user space; tid 0: of any thread */
	__s32 len;	     /* in instructions, or CT_FILTER_NONE, CT_FILTER_UNREADABLE */
	__u32 thread_cnt;    /* threads seen; the filter is of the first */
	__u32 differ;	     /* their filters differ */
	__u64 id;	     /* of the newest filter; 0: none */
	__u64 code[CT_FILTER_LEN_MAX]; /* struct sock_filter */
};

/* A call in flight. */
struct ct_frame {
	__u64 start_ns;
	__u64 call_id;
	__u64 sp; /* stack pointer at the entry point: identifies the call */
	__u32 func_id;
	__u32 lib_id;
	__u64 ioctl_ns;
	__u64 off_cpu_ns;  /* off-CPU time of the thread when the call began */
	__u64 operator_id; /* --torch */
	__u32 timed_ns;	   /* duration of the entry program; 0: the call is not timed */
	__u32 found_ns;	   /* part of it: see ct_cost_cfg */
	__u32 ioctl_cnt;
	__u8 flags;	/* CT_FRAME_F_* */
	__u8 api;	/* the function's family */
	__u8 depth;	/* enclosing calls that are not counted, */
	__u8 api_depth; /* and how many of those are of its family */
	__u64 words[CT_MAX_WORDS];
};
_Static_assert(sizeof(struct ct_frame) == 72 + 8 * CT_MAX_WORDS, "ct_frame is part of the ABI");

/* Longest record. No pointee begins beyond CT_OUT_SZ_MAX. */
#define CT_OUT_SZ_MAX 2048
/* Behind it: the last pointee, a stack, Python frames. */
#define CT_OUT_STACK_OFF_MAX  (CT_OUT_SZ_MAX + CT_CAP_SZ_MAX)
#define CT_OUT_PYTHON_OFF_MAX (CT_OUT_STACK_OFF_MAX + CT_STACK_MAX * 8)
#define CT_OUT_SZ	      (CT_OUT_PYTHON_OFF_MAX + CT_PYTHON_MAX * sizeof(struct ct_python_frame))

_Static_assert(sizeof(struct ct_name) + CT_NAME_SZ_MAX <= CT_OUT_SZ,
	       "a name is put together in ct_thread.out, too");

/* State of one processor, in its own cache line; processors beyond CT_CPUS share entries. No
 * atomics: an update lost to preemption does not matter. */
#define CT_CPUS 256
struct ct_cpu {
	__u64 sent;	   /* bytes sent to a ring, headers included */
	__u32 left;	   /* calls until one is timed */
	__u32 kernel_left; /* system calls, or switches between threads, until one is timed */
	__u64 sample_ns;   /* CLOCK_MONOTONIC; no call is sampled before */
	__u32 pad[10];
};

/* A processor, or a thread that the library records, samples no call for this many times as long as
 * its last sample took: samples take at most 1 % of its time. */
#define CT_SAMPLE_PAUSE 100

/*
 * Tracing overhead. The programs time themselves in randomly chosen calls. The kernel's part
 * (traps, the path to the program) is the same for all calls and is measured at startup.
 */
enum ct_cost_kind {
	CT_COST_PAIR = 0,  /* entry and return are probed */
	CT_COST_ENTRY = 1, /* only the entry is probed */
	/* Entry only, where the kernel single-steps the instruction under the probe. */
	CT_COST_STEPPED = 2,
	CT_COST_KINDS = 4
};

/* Twice the average number of calls per timed call; a power of two. */
#define CT_COST_SKIP 128
/* A program that took longer was interrupted: waiting for a ring never takes this long. */
#define CT_COST_MAX_NS 100000
/* Timed calls in the running mean. */
#define CT_COST_MEAN_OF 16

/* Cache levels: 0 is the first. */
#define CT_COST_LEVELS 2

/* In the BPF side's data. All 0 before the measurement. */
struct ct_cost_cfg {
	__u32 skip_mask; /* calls to skip: a random number, masked with this */
	__u32 first_ns;	 /* estimate for a call of a thread without a timed call */
	__u32 base_ns[CT_COST_KINDS];
	/*
	 * When the traced program does much work between calls, it evicts the kernel's code and
	 * data, and most of its own, from the caches. The time to look up the function and the
	 * thread shows how far away they are, because this work is the same for every call:
	 * found_ns when cached, found_more_ns[i] more when the program has filled cache level i.
	 * The cost outside the BPF programs then grows by away_ns, in proportion.
	 */
	__u32 found_ns, found_more_ns[CT_COST_LEVELS];
	__u32 away_ns[CT_COST_LEVELS][2]; /* CT_COST_PAIR, CT_COST_ENTRY */
	/* Overhead of each of the two programs of a system call besides its own time. */
	__u32 syscall_ns;
};

static inline __u32 ct_cost_base(const volatile struct ct_cost_cfg *c, __u32 kind, __u32 found_ns)
{
	__u32 more = found_ns > c->found_ns ? found_ns - c->found_ns : 0;
	/* near 0: unknown. Otherwise far is larger, and so is its away_ns. */
	__u32 near = c->found_more_ns[0], near_ns = c->away_ns[0][kind & 1];
	__u32 far = c->found_more_ns[1], far_ns = c->away_ns[1][kind & 1];
	__u32 base = c->base_ns[kind & 3];

	if (!far)
		return base;
	if (more < near)
		return base + near_ns * more / near;
	if (more > far + far / 2)
		more = far + far / 2;
	return base + near_ns + (far_ns - near_ns) * (more - near) / (far - near);
}

/* Overhead of one thread. */
struct ct_cost {
	__u64 ns;		 /* total over the first `entries` entries */
	__u64 entries;		 /* entries up to the last timed one */
	__u64 mean_16;		 /* recent mean per call, in 1/16 ns */
	__u64 mean_of;		 /* timed calls, up to CT_COST_MEAN_OF */
	__u64 since_ns, ns_then; /* start of the current second; overhead up to then */
	__u64 busiest;		 /* largest share of a second, in millionths, << 32 | thread id */
};

/* Overhead of one function on one processor; value of the `fn_costs` map. [1]: counted calls. */
struct ct_fn_cost {
	__u64 ns[2], timed[2]; /* timed calls only */
	__u64 found_ns;
};

/* Maximum bytes read of a Python frame. From 3.11 on, frames lie side by side, each above its
 * caller: bytes below a frame are read with it and serve as the next frames. A power of two. The
 * window is the end of ct_thread.out: a record that is long already has space for fewer frames. */
#define CT_PYTHON_FRAME_SZ_MAX 128
#define CT_PYTHON_WINDOW       1024
#define CT_PYTHON_WINDOW_SZ    (CT_PYTHON_WINDOW + CT_PYTHON_FRAME_SZ_MAX)

/*
 * Value of the `pythons` map, keyed by process id: offsets of the interpreter's thread state.
 * Offsets in a frame count from the first byte that is read.
 */
struct ct_python {
	__u64 runtime; /* address of _PyRuntime; 0: no supported Python */
	__u32 interpreters, interpreter_next,
		threads; /* offsets in the runtime, in an interpreter */
	__u32 holder;	 /* in the runtime: the thread state that last held the lock; 0: not used */
	__u16 thread_next, thread_id, thread_frame; /* in a thread state */
	__u16 cframe_frame;			    /* CT_PYTHON_NONE: no cframe */
	__u16 frame_off, frame_sz;		    /* part of a frame that is read */
	__u16 frame_code, frame_back, frame_ip, frame_owner;
	__u16 owner_min; /* frames with such an owner are not code; CT_PYTHON_NONE: all are code */
	__u16 side_by_side; /* 1: frames lie side by side, see CT_PYTHON_WINDOW */
	/* in a thread state: an address on the stack of the running thread; CT_PYTHON_NONE: none */
	__u16 thread_place;
	__u16 code_file, code_function, code_table, code_first_line; /* in a code object */
	__u16 code_first; /* its first instruction; 0: frames hold an index, not an address */
	__u16 str_ascii, str_other; /* in a string: ASCII text, other text */
	__u16 pad;
};
_Static_assert(sizeof(struct ct_python) == 72, "ct_python is part of the ABI");
#define CT_PYTHON_NONE 0xffff

/* Code objects are freed, and others are allocated at the same address. Each hash slot has a number
 * that increases when an object in it is freed. Addresses share slots: a collision only means that
 * a name is sent again. */
#define CT_PYTHON_PLACES_LOG 14

static inline __u32 ct_python_slot(__u32 pid, __u64 code, const volatile __u64 secret[2])
{
	return ((code + pid * secret[1]) * secret[0]) >> (64 - CT_PYTHON_PLACES_LOG);
}

/* Id of a code object: never 0. */
static inline __u32 ct_python_id(__u32 freed)
{
	return freed | 1u << 31;
}

/* From 3.14 on, the low bits of a reference are a tag. */
static inline struct ct_python_frame ct_python_frame_of(const struct ct_python *p, __u64 code,
							__u64 ip)
{
	struct ct_python_frame f = {.code = code & ~7ull};

	if (p->code_first) {
		ip -= f.code + p->code_first;
		if (ip >> 32)
			ip = ~0ull;
	}
	f.off = ip;
	return f;
}

/* Function id of the probe on the function by which CPython frees a code object. Not a CUDA
 * function. */
#define CT_FUNC_PYTHON_FREE CT_MAX_FUNCS
/* That of the probe on cudatrace_sampled() of the library: a call begins that it samples. */
#define CT_FUNC_SAMPLED (CT_MAX_FUNCS + 1)

/*
 * --torch: an operator that a thread is in, or was in. It has ended when its return address or one
 * of its callers' return addresses was overwritten, or when a probed function begins above it on
 * the stack.
 */
#define CT_OPERATOR_CALLERS 4
struct ct_operator {
	__u64 place; /* of the return address; if ret is 0: stack pointer at its start */
	__u64 ret;   /* 0: unknown, not checked */
	__u64 id;    /* call_id */
	__u64 callers[CT_OPERATOR_CALLERS];  /* their return addresses; 0: no more */
	__u8 caller_at[CT_OPERATOR_CALLERS]; /* words above `place` */
	__u32 pad;
};
#define CT_OPERATORS_MAX 64

/* Words above an operator's return address that are searched for its callers' addresses. */
#define CT_OPERATOR_ABOVE 16
/* The return address and those words, with space for a masked index. */
struct ct_operator_words {
	__u64 at[2 * CT_OPERATOR_ABOVE];
};

/* Target of the call instruction in front of a return address; 0: not a call. Lower halves are
 * enough: one call site does not reach targets 4 GiB apart. */
struct ct_callee {
	__u32 ret, to;
};
#define CT_CALLEES_BITS 8

/* Operators of one thread; value of the `operators` map, keyed by thread id. */
struct ct_operators {
	__u32 depth, pad;
	struct ct_operator at[CT_OPERATORS_MAX];
	struct ct_operator_words words; /* read last: too large for the BPF stack */
	struct ct_callee callees[1 << (CT_CALLEES_BITS - 1)][2]; /* a set of two, the newer first */
};
_Static_assert(sizeof(struct ct_operators) < 8000, "8 KiB are taken for it");

/* Key of the `torch_sites` map: the call site in an operator that calls the probed function, as the
 * distance of the return address from that function. It is the same in all processes. */
struct ct_site_key {
	__u64 distance;
	__u32 lib_id;
	__u32 pad;
};
/* Position of the operator's own return address: `off` above the stack pointer. If off is 0: right
 * above what the frame pointer points to. */
struct ct_site {
	__u32 off;
	__u32 arg_words; /* words above the return address: arguments and their alignment */
};
#define CT_SITES_MAX 65536

/* State of one thread; value of the `threads` map, keyed by thread id. Only the thread itself
 * writes it. So the counters need no atomics, exact accounting costs nothing, and preemption cannot
 * mix two records in `out`. */
struct ct_thread {
	__u32 pid, tid;
	__u32 depth;	       /* frames in use */
	__u32 uid;	       /* owner of the row */
	__u64 generation;      /* ct_count.h */
	__u64 next_id, end_id; /* call ids are taken from a shared counter in blocks */
	__u64 off_cpu_ns;      /* --sched: total so far */
	__u64 off_since_ns;    /* not 0: off the CPU since then */
	__u32 level_gen;       /* when proc_level was looked up */
	__u32 proc_level;      /* enum ct_proc_level, never CT_PROC_DEFAULT */
	__u16 contended_cnt;   /* how often another thread counted in between */
	__u16 own_rows;	       /* ct_count_key.thread */
	struct ct_cost cost;
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	struct ct_frame frames[CT_MAX_DEPTH];
	/* --python: its thread state, and the head of the list when the search for it failed */
	__u64 python, python_head;
	__u32 wake, reserved;	    /* wake 1: wake the reader for this record */
	__u64 python_lo, python_hi; /* range of the process's memory in the window */
	__u8 out[CT_OUT_SZ];
};

/* Call ids that a thread takes at a time. */
#define CT_ID_BLOCK 1024

static inline __u64 ct_cost_ns(const struct ct_thread *t)
{
	return t->cost.ns + (t->stats[CT_STAT_ENTRIES] - t->cost.entries) * t->cost.mean_16 / 16;
}

/* A thread's share of a time, as ct_cost.busiest. A second that is not over counts as a whole one.
 */
static inline __u64 ct_cost_share(__u64 cost_ns, __u64 took_ns, __u32 tid)
{
	if (took_ns < 1000000000)
		took_ns = 1000000000;
	return (cost_ns * 1000 / (took_ns / 1000)) << 32 | tid;
}

/* Largest share so far. */
static inline __u64 ct_cost_busiest(const struct ct_thread *t, __u32 tid, __u64 now)
{
	__u64 took = now > t->cost.since_ns ? now - t->cost.since_ns : 0;
	__u64 share = ct_cost_share(ct_cost_ns(t) - t->cost.ns_then, took, tid);

	return share > t->cost.busiest ? share : t->cost.busiest;
}

/* Which processes are traced. */
enum ct_filter_mode {
	CT_FILTER_ALL = 0,  /* every process */
	CT_FILTER_PIDS = 1, /* those in the `pids` map */
};

/* Value of the `pids` map, keyed by process id: traced processes. With CT_FILTER_ALL a process is
 * added by its first call. */
struct ct_pid {
	__u32 flags;
	__u32 level; /* enum ct_proc_level */
	__u32 uid;   /* owner of the row */
	__u32 pad;
	__u64 generation; /* ct_count.h; 0: no record of the process yet */
};
/* Which processes may have a library that records calls. */
enum ct_inproc_of {
	CT_INPROC_NONE = 0,
	CT_INPROC_ALL = 1,  /* all: a process that is not known to have one is about to */
	CT_INPROC_SOME = 2, /* those that request it; the others are not affected */
};
/* Value of the `inproc` map, keyed by process id: a library in the process (ct_shm.h) records some
 * of its calls. */
struct ct_inproc {
	__u64 alive;  /* address of a word in the process: not 0 while it records */
	__u32 forked; /* inherited from the parent: the library records the first call itself,
			 whatever the word is */
	__u32 pad;
	__u64 is_inproc[CT_MAX_FUNCS / 64]; /* functions whose calls it records */
};
/* Stop the process when it maps a library that is not in `known_libs`. Children inherit this. */
#define CT_PID_F_STOP_ON_LIB 1
/* The process was stopped and has not been continued yet. Children do not inherit this. */
#define CT_PID_F_STOPPED 2

/* Key of the `known_libs` map: a library file that has been attached. */
struct ct_lib_key {
	__u64 ino;
	__u32 dev_major;
	__u32 dev_minor;
};
_Static_assert(sizeof(struct ct_lib_key) == 16, "ct_lib_key is part of the ABI");

/* Value of the `comm_layouts` map, keyed by library id: offsets of hash, ranks and the counts of
 * collectives in this libnccl's communicators. */
struct ct_comm_layout {
	__u32 off; /* offset of the hash */
	__u32 version;
	__u32 counts_off; /* of CT_COMM_COUNTS 64-bit numbers; 0: unknown */
	__u32 reserved;
};
#define CT_COMM_LAYOUTS 256

/* Prefixes of the library file names of all families, with the NUL. */
#define CT_STEMS_MAX 20
#define CT_STEM_SZ   24

/* Set before load; constant for the verifier. */
struct ct_cfg {
	__u32 filter_mode;     /* enum ct_filter_mode */
	__u32 follow_children; /* children of traced processes are traced */
	__u32 links_pid;       /* maps libraries to attach to them: its mappings are ignored */
	__u32 own_pid;	       /* the tracer itself: only its stub is traced */
	__u32 pidns;	  /* inode of the PID namespace that numbers tasks; 0: the initial one */
	__u32 ring_cnt;	  /* rings; processor i writes to ring i */
	__u32 wake_shift; /* each processor wakes the reader once per 2^wake_shift bytes sent */
	__u32 filter_uid; /* 1: only processes of user `uid` */
	__u32 uid;
	__u64 min_duration_ns;
	__u32 redact;	      /* enum ct_redact */
	__u64 name_secret[2]; /* hash keys for names that were sent; odd, random */
	__u64 user_secret;    /* ct_user_slot(); odd, random */
	__u32 wake_on_thread; /* --stack: wake the reader while the process still lives */
	struct ct_nv_devs nv; /* --kernel */
	/* uvm_perf_event_notify(): see ct_nv_bpf.h */
	__u32 uvm_fault_id, uvm_migration_id;
	__u32 uvm_off[10];
	/* nvidia:nvidia_dev_xid: offsets of its fields */
	__u32 xid_dev_off, xid_code_off, xid_msg_off;
	__u32 python;	   /* --python */
	__u32 profile;	   /* only sampled calls have stacks, of processes at any level */
	__u32 torch;	   /* --torch */
	__u32 inproc;	   /* enum ct_inproc_of: processes whose libraries record calls, too */
	__u32 begins_func; /* CT_INPROC_SOME: a process that calls it starts to use the driver
			      (ct_enter) */
	__u32 fair;	   /* 1: programs of all users are traced and share the tables */
	__u32 rows_max[CT_TABLE_CNT]; /* sizes of the tables; 0: the table is not filled */
	__u64 results[CT_APIS_MAX][CT_RESULT_WORDS]; /* one bit per result that has a name */
	/* prefixes of the file names to look for; "": end of the list */
	char stems[CT_STEMS_MAX][CT_STEM_SZ];
};

/* Cookie of a probe: func_id in the low 32 bits, lib_id in 24 bits, and in 6 bits the turn: how
 * often probes were put into the library. Probes of two turns can coexist for a while. */
#define CT_COOKIE(func_id, lib_id, turn)                                                           \
	((__u64)((turn)&63) << 56 | (__u64)((lib_id)&0xffffff) << 32 | (__u32)(func_id))
#define CT_COOKIE_FUNC(cookie) ((__u32)(cookie))
/* lib_id and turn of a probe, which identify its calls. */
#define CT_COOKIE_LIB(cookie) ((__u32)((cookie) >> 32) & 0x3fffffff)
#define CT_LIB_ID(of_cookie)  ((of_cookie)&0xffffff)
/* a and b are of the same library, and a has a later turn. */
#define CT_IS_NEWER(a, b) (!CT_LIB_ID((a) ^ (b)) && (((a) - (b)) >> 24 & 63) < 32)
/* For the overhead: only the entry has a program; the instruction is single-stepped. */
#define CT_COOKIE_F_ENTRY   (1ull << 62)
#define CT_COOKIE_F_STEPPED (1ull << 63)

#endif /* CT_BPF_H */
