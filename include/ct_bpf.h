/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seam between the BPF programs and their loader alone: values in shared maps, settings.
 * Records are in ct_record.h. Fixed widths, sizes asserted where it matters, included by both
 * sides.
 */
#ifndef CT_BPF_H
#define CT_BPF_H

#include "ct_nv.h"

/* Nested calls of one thread that are told apart. libcuda 580 nests at most 3 deep. */
#define CT_MAX_DEPTH 8

/* The call is counted: call_id is that of the call it was made in. */
#define CT_FRAME_F_COUNTED 1
/* No frame, but the place above the last: what the newest call without a return looked like. */
#define CT_FRAME_F_ENTRY_ONLY 2
/* CT_SPEC_F_DEEP */
#define CT_FRAME_F_DEEP 4

#define CT_REGS_RETS 32

/* Where a thread is in its program; if it runs, where it was when it last came into the kernel. */
struct ct_regs {
	__u32 pid, tid; /* asked for */
	__u64 ip, sp, fp;
	__u64 tls; /* x86: pthread_self() */
	__u32 seen, runs;
	/* Return addresses that the kernel keeps for return probes: its own lie in their places. */
	__u32 ret_cnt, pad;
	struct ct_ret {
		__u64 at, ip;
	} rets[CT_REGS_RETS];
};
/* Threads that are looked at at once. */
#define CT_REGS_MAX 16

/* A call in flight. */
struct ct_frame {
	__u64 start_ns;
	__u64 call_id;
	__u64 sp; /* stack pointer at the entry point: identifies the call */
	__u32 func_id;
	__u32 lib_id;
	__u64 ioctl_ns;
	__u64 off_cpu_ns;  /* of the thread when the call began */
	__u64 operator_id; /* --torch */
	__u32 timed_ns;	   /* what the program at the entry took; 0: the call is not timed */
	__u32 found_ns;	   /* of that: see ct_cost_cfg */
	__u32 ioctl_cnt;
	__u8 flags;	/* CT_FRAME_F_* */
	__u8 api;	/* the function's family */
	__u8 depth;	/* how many calls that are not counted it was made in, */
	__u8 api_depth; /* and how many of those are of its family */
	__u64 words[CT_MAX_WORDS];
};
_Static_assert(sizeof(struct ct_frame) == 72 + 8 * CT_MAX_WORDS, "ct_frame is part of the ABI");

/* Longest record: pointees stop when the next one would begin behind CT_OUT_SZ_MAX. */
#define CT_OUT_SZ_MAX 2048
/* Behind them: the last one, a stack, frames of Python. */
#define CT_OUT_STACK_OFF_MAX  (CT_OUT_SZ_MAX + CT_CAP_SZ_MAX)
#define CT_OUT_PYTHON_OFF_MAX (CT_OUT_STACK_OFF_MAX + CT_STACK_MAX * 8)
#define CT_OUT_SZ	      (CT_OUT_PYTHON_OFF_MAX + CT_PYTHON_MAX * sizeof(struct ct_python_frame))

_Static_assert(sizeof(struct ct_name) + CT_NAME_SZ_MAX <= CT_OUT_SZ,
	       "a name is put together in ct_thread.out, too");

/* Each processor's own, in a cache line of its own; those of more share. No atomics: what gets lost
 * when a program is preempted does not matter. */
#define CT_CPUS 256
struct ct_cpu {
	__u64 sent;	   /* bytes, with their headers, to a ring */
	__u32 left;	   /* calls until one is timed */
	__u32 kernel_left; /* system calls, or switches between threads, until one is timed */
	__u32 pad[12];
};

/*
 * What tracing costs: of some calls, by chance, the programs take their own time; what the kernel
 * adds (traps, the way to the program) is the same for all, and measured at the start.
 */
enum ct_cost_kind {
	CT_COST_PAIR = 0,  /* entry and return are probed */
	CT_COST_ENTRY = 1, /* the entry alone */
	/* The same where the kernel single-steps the instruction under the probe. */
	CT_COST_STEPPED = 2,
	CT_COST_KINDS = 4
};

/* One call in half as many is timed; a power of two. */
#define CT_COST_SKIP 128
/* A program that took longer was interrupted: no call waits so long for a ring. */
#define CT_COST_MAX_NS 100000
/* Timed calls that the mean is of. */
#define CT_COST_MEAN_OF 16

/* Of caches: 0 is the first. */
#define CT_COST_LEVELS 2

/* In the BPF side's data; all 0 until it is measured. */
struct ct_cost_cfg {
	__u32 skip_mask; /* how many calls are left out: by chance, none of these bits more */
	__u32 first_ns;	 /* a call of a thread of which none was timed yet */
	__u32 base_ns[CT_COST_KINDS];
	/*
	 * When the program does much between its calls, the kernel's part is not in the caches,
	 * either, and neither is all of the program's behind it. How far away they are is told by
	 * the time that finding the function and the thread takes, which is the same work for all
	 * calls: so long, and so much longer when the program has filled the first level, and when
	 * it has filled the second. All but the programs is longer by away_ns then, and in
	 * proportion.
	 */
	__u32 found_ns, found_more_ns[CT_COST_LEVELS];
	__u32 away_ns[CT_COST_LEVELS][2]; /* CT_COST_PAIR, CT_COST_ENTRY */
	/* What one of the two programs of a system call adds besides its own time. */
	__u32 syscall_ns;
};

static inline __u32 ct_cost_base(const volatile struct ct_cost_cfg *c, __u32 kind, __u32 found_ns)
{
	__u32 more = found_ns > c->found_ns ? found_ns - c->found_ns : 0;
	/* near 0: not known; else far is more, as what belongs to it is */
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

/* Of one thread. */
struct ct_cost {
	__u64 ns;		 /* of so many entries: */
	__u64 entries;		 /* up to the last that was timed */
	__u64 mean_16;		 /* of a call lately, in 1/16 ns */
	__u64 mean_of;		 /* timed calls, up to CT_COST_MEAN_OF */
	__u64 since_ns, ns_then; /* a second begins; what had been spent by then */
	__u64 busiest;		 /* share of a second, in millionths, << 32 | thread id */
};

/* Of one function on one processor; value of the `fn_costs` map. [1]: of counted calls. */
struct ct_fn_cost {
	__u64 ns[2], timed[2]; /* of timed calls alone */
	__u64 found_ns;
};

/* Bytes of a Python frame that are read at most. From 3.11 on frames lie side by side, each above
 * the one that called it: what lies below is read with it, as the next ones. A power of two. The
 * window is the end of ct_thread.out: so many frames fewer has a record that is long without them.
 */
#define CT_PYTHON_FRAME_SZ_MAX 128
#define CT_PYTHON_WINDOW       1024
#define CT_PYTHON_WINDOW_SZ    (CT_PYTHON_WINDOW + CT_PYTHON_FRAME_SZ_MAX)

/*
 * Value of the `pythons` map, keyed by process id: where its Python keeps what its threads run.
 * What is in a frame is counted from the first byte that is read of it.
 */
struct ct_python {
	__u64 runtime; /* address of _PyRuntime; 0: there is no Python that is known */
	__u32 interpreters, interpreter_next, threads; /* of the runtime, of an interpreter */
	__u32 holder; /* of the runtime: the thread state that had the lock last; 0: not asked */
	__u16 thread_next, thread_id, thread_frame; /* of a thread state */
	__u16 cframe_frame;			    /* CT_PYTHON_NONE: it has no such thing */
	__u16 frame_off, frame_sz;		    /* what of a frame is read */
	__u16 frame_code, frame_back, frame_ip, frame_owner;
	__u16 owner_min;    /* those of such owners are no code; CT_PYTHON_NONE: all are */
	__u16 side_by_side; /* 1: frames are, see CT_PYTHON_WINDOW */
	/* of a thread state: an address on the stack of who runs it; CT_PYTHON_NONE: it has none */
	__u16 thread_place;
	__u16 code_file, code_function, code_table, code_first_line; /* of a code object */
	__u16 code_first; /* its first instruction; 0: frames have an index, not an address */
	__u16 str_ascii, str_other; /* of a string: its text, and text that is not all ASCII */
	__u16 pad;
};
_Static_assert(sizeof(struct ct_python) == 72, "ct_python is part of the ABI");
#define CT_PYTHON_NONE 0xffff

/* Code objects are freed, and others made in their places: each place has a number, which goes up
 * when what lies there is freed. Places are many, so they share: one more only means that a name is
 * sent again. */
#define CT_PYTHON_PLACES_LOG 14

static inline __u32 ct_python_slot(__u32 pid, __u64 code, const volatile __u64 secret[2])
{
	return ((code + pid * secret[1]) * secret[0]) >> (64 - CT_PYTHON_PLACES_LOG);
}

/* By what number a code object is known: never 0. */
static inline __u32 ct_python_id(__u32 freed)
{
	return freed | 1u << 31;
}

/* From 3.14 on the last bits of a reference say what kind it is. */
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

/* A probe's function: none of CUDA's, but the one by which CPython frees a code object. */
#define CT_FUNC_PYTHON_FREE CT_MAX_FUNCS

/*
 * --torch. An operator that a thread is in, or was: it is over when another word lies where its
 * return address did, or one of those of who called it, or when something begins above that place.
 */
#define CT_OPERATOR_CALLERS 4
struct ct_operator {
	__u64 place; /* of the return address; ret 0: stack pointer at its beginning */
	__u64 ret;   /* 0: not known, and not looked at */
	__u64 id;    /* call_id */
	__u64 callers[CT_OPERATOR_CALLERS];  /* their return addresses; 0: no more */
	__u8 caller_at[CT_OPERATOR_CALLERS]; /* so many words above the place */
	__u32 pad;
};
#define CT_OPERATORS_MAX 64

/* Words above an operator's return address among which those of its callers are looked for. */
#define CT_OPERATOR_ABOVE 16
/* The return address and those, and room for an index that is masked. */
struct ct_operator_words {
	__u64 at[2 * CT_OPERATOR_ABOVE];
};

/* What the instruction in front of a return address calls; 0: it is no call. Lower halves: what is
 * 4 GiB farther is not called from the same place. */
struct ct_callee {
	__u32 ret, to;
};
#define CT_CALLEES_BITS 8

/* Of a thread; value of the `operators` map, keyed by thread id. */
struct ct_operators {
	__u32 depth, pad;
	struct ct_operator at[CT_OPERATORS_MAX];
	struct ct_operator_words words; /* read last: too large for the BPF stack */
	struct ct_callee callees[1 << (CT_CALLEES_BITS - 1)][2]; /* one place: the newer first */
};
_Static_assert(sizeof(struct ct_operators) < 8000, "8 KiB are taken for it");

/* Key of the `torch_sites` map: a call of what each operator calls when it begins, by the distance
 * of its return address from there, which is the same in all processes. */
struct ct_site_key {
	__u64 distance;
	__u32 lib_id;
	__u32 pad;
};
/* Where the operator's own return address is: so far above the stack pointer, or, when off is 0,
 * right above what the frame pointer points to. */
struct ct_site {
	__u32 off;
	__u32 arg_words; /* above the return address: arguments, and what aligns them */
};
#define CT_SITES_MAX 65536

/* State of one thread; value of the `threads` map, keyed by thread id. Only the thread itself
 * writes it, so the counters need no atomics and exact accounting costs nothing; out is where a
 * record is put together, for the same reason: preemption cannot mix two. */
struct ct_thread {
	__u32 pid, tid;
	__u32 depth;	       /* frames in use */
	__u32 uid;	       /* whose row it is */
	__u64 generation;      /* ct_count.h */
	__u64 next_id, end_id; /* call ids are taken from a shared counter in blocks */
	__u64 off_cpu_ns;      /* --sched: so far */
	__u64 off_since_ns;    /* not 0: not running since then */
	__u32 level_gen;       /* when proc_level was looked up */
	__u32 proc_level;      /* enum ct_proc_level, never CT_PROC_DEFAULT */
	__u16 met;	       /* how often another thread had counted in between */
	__u16 own_rows;	       /* ct_count_key.thread */
	struct ct_cost cost;
	__u64 stats[CT_STAT_CNT];
	__u64 drops[CT_DROP_CNT];
	struct ct_frame frames[CT_MAX_DEPTH];
	/* --python: its thread state, and the first of all states when it was looked for in vain */
	__u64 python, python_head;
	__u32 wake, reserved;	    /* 1: the reader is woken for it */
	__u64 python_lo, python_hi; /* what of the process is in the window */
	__u8 out[CT_OUT_SZ];
};

/* Call ids that a thread takes at a time. */
#define CT_ID_BLOCK 1024

static inline __u64 ct_cost_ns(const struct ct_thread *t)
{
	return t->cost.ns + (t->stats[CT_STAT_ENTRIES] - t->cost.entries) * t->cost.mean_16 / 16;
}

/* Of the busiest second so far, ct_cost.busiest. One that is not over counts as a whole. */
static inline __u64 ct_cost_busiest(const struct ct_thread *t, __u32 tid, __u64 now)
{
	__u64 took = now > t->cost.since_ns ? now - t->cost.since_ns : 0, share;

	if (took < 1000000000)
		took = 1000000000;
	share = (ct_cost_ns(t) - t->cost.ns_then) * 1000 / (took / 1000);
	share = share << 32 | tid;
	return share > t->cost.busiest ? share : t->cost.busiest;
}

/* Which processes are traced. */
enum ct_filter_mode {
	CT_FILTER_ALL = 0,  /* every process */
	CT_FILTER_PIDS = 1, /* those in the `pids` map */
};

/* Value of the `pids` map, keyed by process id: traced processes. With CT_FILTER_ALL a process
 * gets in with its first call. */
struct ct_pid {
	__u32 flags;
	__u32 level; /* enum ct_proc_level */
	__u32 uid;   /* whose row it is */
	__u32 pad;
	__u64 generation; /* ct_count.h; 0: nothing was seen of it yet */
};
/* Of which processes may that be? */
enum ct_inproc_of {
	CT_INPROC_NONE = 0,
	CT_INPROC_ALL = 1,  /* of all: what is not known to be so is about to be */
	CT_INPROC_SOME = 2, /* of those that ask for it: the rest makes no difference to them */
};
/* Value of the `inside` map, keyed by process id: a library in the process (ct_shm.h) records some
 * of its calls. */
struct ct_inproc {
	__u64 alive;  /* address of a word in the process: not 0 when it does */
	__u32 forked; /* what its parent had: it records the first call itself, whatever the word is
		       */
	__u32 pad;
	__u64 is_inproc[CT_MAX_FUNCS / 64]; /* calls of which functions */
};
/* Stop it when it maps a library that is not in `known_libs`. Children inherit it. */
#define CT_PID_F_STOP_ON_LIB 1
/* It was, and nobody has told it to go on yet. Children do not inherit it. */
#define CT_PID_F_STOPPED 2

/* Key of the `known_libs` map: a library file that is attached already. */
struct ct_lib_key {
	__u64 ino;
	__u32 dev_major;
	__u32 dev_minor;
};
_Static_assert(sizeof(struct ct_lib_key) == 16, "ct_lib_key is part of the ABI");

/* Value of the `comm_layouts` map, keyed by library id: where in this libnccl's communicators hash
 * and ranks are, and how often which collective was made. */
struct ct_comm_layout {
	__u32 off; /* of the hash */
	__u32 version;
	__u32 counts_off; /* of CT_COMM_COUNTS numbers of 64 bits; 0: not known */
	__u32 reserved;
};
#define CT_COMM_LAYOUTS 256

/* Names that libraries' files begin with, of all families, with the NUL. */
#define CT_STEMS_MAX 20
#define CT_STEM_SZ   24

/* Set before load; constant for the verifier. */
struct ct_cfg {
	__u32 filter_mode;     /* enum ct_filter_mode */
	__u32 follow_children; /* children of traced processes are traced */
	__u32 links_pid;       /* maps libraries to attach to them: no news */
	__u32 own_pid;	       /* the tracer itself is never traced but for its stub */
	__u32 pidns;	  /* inode of the PID namespace by which tasks are numbered; 0: the first */
	__u32 ring_cnt;	  /* rings; processor i writes to ring i */
	__u32 wake_shift; /* each processor wakes the reader once for 2^wake_shift bytes that it
			     sends */
	__u32 filter_uid; /* 1: only processes of the user uid */
	__u32 uid;
	__u64 min_duration_ns;
	__u32 redact;	      /* enum ct_redact */
	__u64 name_secret[2]; /* by which told names are known; odd, random */
	__u64 user_secret;    /* ct_user_slot(); odd, random */
	__u32 wake_on_thread; /* --stack: the reader looks at a process while it still lives */
	struct ct_nv_devs nv; /* --kernel */
	/* uvm_perf_event_notify(): see ct_nv_bpf.h */
	__u32 uvm_fault_id, uvm_migration_id;
	__u32 uvm_off[10];
	/* nvidia:nvidia_dev_xid: where its fields are */
	__u32 xid_dev_off, xid_code_off, xid_msg_off;
	__u32 python;	   /* --python */
	__u32 torch;	   /* --torch */
	__u32 inproc;	   /* enum ct_inproc_of: libraries in processes record calls, too */
	__u32 begins_func; /* CT_INPROC_SOME: who calls it begins to use the driver (ct_enter) */
	__u32 fair;	   /* 1: programs of all users are traced, and share the tables */
	__u32 rows_max[CT_TABLE_CNT];		     /* sizes of the tables; 0: not filled */
	__u64 results[CT_APIS_MAX][CT_RESULT_WORDS]; /* a bit for each result with a name */
	/* names of files that are looked for begin with one of these; "": no more */
	char stems[CT_STEMS_MAX][CT_STEM_SZ];
};

/* A probe's cookie: func_id in the low 32 bits, lib_id in 24, and which time it is that probes are
 * put into the library in 6: two of them may be there for a while. */
#define CT_COOKIE(func_id, lib_id, turn)                                                           \
	((__u64)((turn)&63) << 56 | (__u64)((lib_id)&0xffffff) << 32 | (__u32)(func_id))
#define CT_COOKIE_FUNC(cookie) ((__u32)(cookie))
/* lib_id and turn: a probe's, to tell calls by. */
#define CT_COOKIE_LIB(cookie) ((__u32)((cookie) >> 32) & 0x3fffffff)
#define CT_LIB_ID(of_cookie)  ((of_cookie)&0xffffff)
/* Of two of one library: has a later turn than b. */
#define CT_IS_NEWER(a, b) (!CT_LIB_ID((a) ^ (b)) && (((a) - (b)) >> 24 & 63) < 32)
/* For what it costs: no program is attached to the return; the instruction is single-stepped. */
#define CT_COOKIE_F_ENTRY   (1ull << 62)
#define CT_COOKIE_F_STEPPED (1ull << 63)

#endif /* CT_BPF_H */
