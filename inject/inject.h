/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library in the traced process: declarations shared by its parts.
 *
 * A driver function leads to its thunk (thunk.S), through the driver's own dispatch pointer
 * (hook.c) or through a pointer that the program got instead (main.c). The thunk calls
 * inject_enter(), the real function, and inject_exit() (record.c). These take no lock, allocate
 * nothing, never wait, and preserve errno; thread.c and process.c prepare what a thread or a
 * process needs first.
 */
#ifndef INJECT_H
#define INJECT_H

#include "ct_recorder.h"
#include "ct_shm.h"
#include "object.h"
#include "sys.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __aarch64__
#define REG_WORDS CT_REG_WORDS_ARM64
#define CALL_ROOM 272
#else
#define REG_WORDS CT_REG_WORDS_X86
#define CALL_ROOM 256
#endif

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Code that runs at each call is contiguous (.text.hot). Between two calls the program's code
 * evicts it from the caches, and each line must be fetched again. Rarely used code is elsewhere. */
#define hot  __attribute__((hot))
#define cold __attribute__((cold, noinline))
/* A pointer that is computed once: otherwise gcc recomputes it at each use, which is more code to
 * fetch. */
#define once(p)                                                                                    \
	({                                                                                         \
		__auto_type p_ = (p);                                                              \
                                                                                                   \
		__asm__("" : "+r"(p_));                                                            \
		p_;                                                                                \
	})

/* Stack words of the caller that a thunk passes on. No driver function has more than 10; NCCL's
 * ncclCommInitRank() passes a ncclUniqueId there, which has 16. */
#define STACK_WORDS 16

/* A call, in its thunk's frame: thunk.S uses the offsets of the first members. */
struct call {
	uint64_t stack[STACK_WORDS]; /* passed on */
	uint64_t regs[REG_WORDS];
	uint64_t func_id;
	uint64_t sp; /* at the entry point */
	uint64_t fp; /* the caller's frame pointer */
	uint64_t ret;
	/* Set by inject_enter(). NULL: the return needs no processing. */
	struct thread *t;
	uint64_t start_ns;
	uint32_t gen;	     /* process.alive */
	uint32_t depth;	     /* of its frame */
	uint32_t timed_ns;   /* time spent in inject_enter(); 0: not timed */
	uint16_t role, hook; /* its hook, and the hook's role and state */
	const struct ct_spec *spec;
	struct ct_frame *frame;
};
_Static_assert(offsetof(struct call, regs) == 128, "see thunk.S");
_Static_assert(offsetof(struct call, t) == 128 + 8 * (REG_WORDS + 4), "see thunk.S");
_Static_assert(sizeof(struct call) <= CALL_ROOM, "see thunk.S");

/* State of a thread that has a slot, private to the process: other processes cannot change it.
 * Members used by each call come first. */
struct thread {
	struct ct_shm_slot *slot;
	uint8_t *ring;
	uint64_t ring_sz;
	uint64_t busy_sp;	     /* stack pointer of the call that set slot->busy; 0: none */
	uint64_t tsc0, ns0, last_ns; /* clock.c; only while busy_sp is set */
	uint32_t skip;		     /* calls until one is timed */
	uint32_t tid;
	uint64_t room_end;	     /* a record fits if the head after it does not exceed this */
	uint64_t mult;		     /* clock.c: the process's value, as last read */
	uint64_t sent_id, sent_head; /* record of the last call, and head before it */
	struct ct_count *counts;     /* rows for counts_cnt functions; slots.c */
	uint32_t counts_cnt;
	uint32_t look_cnt;
	uint64_t look_ns;			/* when the thread's name is checked again */
	const struct call *calls[CT_MAX_DEPTH]; /* of the slot's frames; may no longer exist */
	uint64_t stack_lo, stack_hi; /* of the stack that the system allocated; 0: unknown */
	uint64_t random;
	uint64_t since_ns,
		cost_then;  /* start of the current second, and the overhead so far at that time */
	uint64_t comm;	    /* communicator that comm.c reads; 0: none */
	uint64_t sample_ns; /* no call is sampled before */
	bool reused;	    /* the next number was that of a call with frames, without a record */
	uint64_t sample_took; /* overhead of the sampled call so far */
	char name[16];	      /* last name sent to the tracer */
	/* nv.c: stack position of the function that set the slot's nv active, 0: none; the last
	 * call that a record of a system call refers to; overhead before the system call */
	uint64_t nv_sp, nv_call, nv_took;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct thread, room_end) == 64, "a cache line");

/* gate.c: the gate in front of the driver. */
#define GATE_THREADS 4096
struct gate {
	uint32_t armed;	  /* 1: thunks of the driver count threads (HOOK_GATED) */
	uint32_t ready;	  /* 1: a thread may start CUPTI */
	uint32_t closed;  /* 1: threads wait at the entry; a futex */
	uint32_t inside;  /* threads in calls */
	uint32_t starter; /* id of the thread that starts CUPTI; 0: none */
	uint32_t started; /* 1: it was started, with this result */
	uint32_t state;	  /* enum ct_cupti_state */
	uint32_t small;	  /* 1: a thread came whose stack is too small */
	uint32_t epoch;	  /* how often it was armed */
	uint32_t came;	  /* how many threads have had to wait */
	uint64_t exit_ns; /* closed by gate_close() until then; 0: not */
	/* Threads outside calls that began before. */
	uint32_t passed_cnt, passed[GATE_THREADS];
};

/* In pages that a child of fork finds zeroed. */
struct process {
	const struct ct_shm_set *set; /* also read by thunk.S; NULL: not connected yet */
	uint32_t alive;	   /* not 0: there is a tracer, and the other members are valid; differs for
			      each connection of this process and its ancestors */
	uint32_t given_up; /* no further attempts to connect */
	uint32_t starting; /* id of the thread that is connecting */
	int pid;
	struct ct_shm *shm;
	uint64_t checked_ns; /* last check whether the tracer still exists */
	uint32_t level;	     /* enum ct_proc_level, as last read */
	uint32_t gpu_seen;   /* the last ct_shm.gpu_request that was acted on */
	uint32_t hooks_all;  /* functions that are not traced are hooked, too */
	uint32_t muted;	     /* functions are redirected, but probes still record their calls */
	/* clock.c: nanoseconds per cycle times 2^32; 0: unknown. Then the time of the last
	 * measurement. */
	uint64_t mult, cal_tsc, cal_ns;
	uint32_t measuring, tsc_ok;
	bool whole;				 /* all of shm is mapped */
	struct ct_shm_slot *slots[CT_SHM_SLOTS]; /* those that are mapped, from the first on */
	struct thread threads[CT_SHM_SLOTS];
	uint64_t set_sz; /* bytes mapped at set */
	struct gate gate;
};

_Static_assert(offsetof(struct process, set) == 0, "see thunk.S");
_Static_assert(offsetof(struct ct_shm_set, changed_ns) == 40, "see thunk.S");

/* Never NULL. */
extern struct process *inject_process;
/* The program filters its own system calls. The filter might kill it at any system call of the
 * library, so the library makes none from now on. */
extern uint32_t inject_sandboxed;
/* sandbox.c: returns whether a filter was installed after the command was started, and reports it.
 */
bool sandbox_has_come(void);
/* Must come before any other system call. Detects a filter that may kill the program, and stores
 * the thread's name. */
void sandbox_at_start(char comm[16]);
/* At the first use of CUDA: reports what sandbox_at_start() has detected. */
void sandbox_report(void);
/* trial.c: returns whether the library's system calls leave the program alive. */
bool trial_passes(void);
void inject_clock_off(void);
/* Returns whether a read of the time stamp counter would end this thread. */
bool clock_is_off(void);
/* For programs started from here: filters present now were inherited. */
void sandbox_keep(void);
/* Returns whether any system call filter was installed, perhaps a container's. */
bool sandbox_is_filtered(void);
static inline bool is_quiet(void);
/* Waits briefly for another thread. */
#define NAP_NS 100000
static inline void nap(void)
{
	long pause[2] = {0, NAP_NS}; /* struct timespec */

	if (!is_quiet())
		sys(SYS_nanosleep, pause, NULL);
	for (unsigned i = 0; is_quiet() && i < 1000; i++)
		__asm__ volatile("" ::: "memory");
}
static inline bool is_quiet(void)
{
	const struct ct_shm *shm = inject_process->shm;

	return unlikely(inject_sandboxed) || unlikely(shm && shm->quiet);
}
/* Lets the kernel copy memory of the program, which may not be mapped. Returns how much, or -errno.
 */
struct iovec;
static inline long kernel_copy(const struct iovec *to, unsigned to_cnt, const struct iovec *from,
			       unsigned from_cnt)
{
	long n = sys(SYS_process_vm_readv, inject_process->pid, to, to_cnt, from, from_cnt, 0);

	/* The process's id is that of its main thread, which may have ended. */
	if (n == -ESRCH)
		n = sys(SYS_process_vm_readv, sys(SYS_gettid), to, to_cnt, from, from_cnt, 0);
	return n;
}
/* State of this thread: its slot; the process.alive that the slot belongs to; calls until the next
 * attempt to get a slot. Then addresses that a call will write, for prefetching only. */
struct tls {
	struct thread *t;
	uint32_t gen, wait;
	const struct ct_shm_slot *slot;
	const uint8_t *next;	      /* the next record */
	const struct ct_frame *frame; /* of the next call, if it follows soon */
	struct process *process;
	/* In a call of the driver (gate.c): the outermost call's stack pointer; which gate counts
	 * it, and how often that had been armed; its depth; it starts CUPTI, whose calls these are.
	 */
	uint64_t gate_sp;
	uint32_t gate_of;
	uint16_t gate_epoch, gate_depth : 14, gate_starts : 1, gate_exits : 1;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct tls) == 64, "static thread-local memory is scarce");
extern __thread struct tls inject_me;
/* Use of a function's calls, besides being traced. */
enum hook_role {
	HOOK_NONE,
	HOOK_ANSWERS, /* *pfn is replaced by a thunk: cuGetProcAddress() and its newer form */
	HOOK_FREES,   /* its first argument is an NCCL communicator: comm.c */
	HOOK_UNLOADS, /* afterwards handles may refer to other kernels: params.c */
};
/* A bit of the role: calls pass the gate (gate.c). */
#define HOOK_GATED 0x8000u
struct hook {
	void *real;   /* the function that the thunk calls. NULL: not hooked */
	void *bypass; /* the same, after its probe if it has one (bypass_new()): for calls that are
			 recorded here, and calls that are off */
	/* Value of the settings' changed_ns at which its calls are off. While it matches, thunk.S
	 * calls the function and does nothing else. 0: not off. */
	uint64_t off_ns;
	uint32_t role; /* enum hook_role, and HOOK_GATED */
	uint32_t func_id;
} __attribute__((aligned(32)));
_Static_assert(sizeof(struct hook) == 32 && offsetof(struct hook, bypass) == 8 &&
		       offsetof(struct hook, off_ns) == 16,
	       "see thunk.S");
/* Functions of the first libcuda, and of other libraries, have their id as hook number. Those of a
 * second libcuda use free numbers, from the last one down. */
extern struct hook inject_hooks[CT_MAX_FUNCS];
/* From now on all its calls reach inject_enter(), including those that are off. */
static inline void hook_role_set(uint32_t i, enum hook_role role)
{
	__atomic_store_n(&inject_hooks[i].role, role | (inject_hooks[i].role & HOOK_GATED),
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(&inject_hooks[i].off_ns, 0, __ATOMIC_SEQ_CST);
}

/* thunk.S: CT_MAX_FUNCS thunks, THUNK_SZ bytes each. */
#define THUNK_SZ 16
extern char inject_thunks[];

/* record.c; called by thunks */
void *inject_enter(struct call *call);
void inject_exit(struct call *call, uint64_t result);
uint64_t inject_now(void);
bool inject_on_other_stack(const struct thread *t, uint64_t sp, uint64_t outer_sp);
/* Returns whether the caller at this stack position runs in a signal handler that interrupted the
 * code which set the mark. False if that code was left by longjmp(). */
static inline bool is_within(const struct thread *t, uint64_t sp, uint64_t mark)
{
	return mark && (sp < mark || inject_on_other_stack(t, sp, mark));
}
/* Stack position of the calling function. */
#define PLACE ((uintptr_t)__builtin_frame_address(0))
/* Marks that a record is being made, by the code at this stack position. A single store, for signal
 * handlers. */
static inline void busy_set(struct thread *t, uint64_t sp)
{
	__atomic_store_n(&t->busy_sp, sp, __ATOMIC_RELAXED);
	__atomic_store_n(&t->slot->busy, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void busy_clear(struct thread *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&t->slot->busy, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&t->busy_sp, 0, __ATOMIC_RELAXED);
}
/* Its calls will not return: sends their records and removes all frames. */
void inject_unfinished(struct thread *t, uint64_t now);

/* clock.c */
bool clock_setup(struct process *p);
/* Returns the value to subtract from CLOCK_MONOTONIC (src/util/clock.h). */
void clock_set_offset(int64_t ns);
/* Slower; also corrects the base of thread_now(). */
uint64_t clock_anchor(struct process *p, struct thread *t);
#define CLOCK_SPAN (1ull << 22) /* cycles: 1 or 2 ms */
/* CLOCK_MONOTONIC in nanoseconds, never decreasing; only while busy_sp is set. */
static inline uint64_t thread_now(struct process *p, struct thread *t)
{
#ifdef __x86_64__
	uint64_t mult = t->mult, cycles, ns;

	if (likely(mult)) {
		cycles = __builtin_ia32_rdtsc() - t->tsc0;
		if (likely(cycles < CLOCK_SPAN)) {
			ns = t->ns0 + (cycles * mult >> 32);
			if (unlikely(ns < t->last_ns))
				ns = t->last_ns;
			return t->last_ns = ns;
		}
	}
#endif
	return clock_anchor(p, t);
}

/* ring.c */
void *ring_turn(struct thread *t, uint32_t size);
static inline uint32_t ring_size(uint32_t size)
{
	return (size + CT_SHM_ALIGN - 1) & ~(CT_SHM_ALIGN - 1u);
}
/* Returns space for a record of at most this size, or NULL if the ring is full. ring_send() sends
 * what was written there. */
static inline void *ring_room(struct thread *t, uint32_t size)
{
	const struct ct_shm_slot *s = t->slot;

	if (unlikely(s->head + CT_SHM_REC_MAX > t->room_end))
		return ring_turn(t, ring_size(size));
	return t->ring + (s->head & (t->ring_sz - 1));
}
static inline void ring_send(struct thread *t, uint32_t size)
{
	__atomic_store_n(&t->slot->head, t->slot->head + ring_size(size), __ATOMIC_RELEASE);
}

/* slots.c: parts of the process's memory, mapped on demand. Return NULL or false if that fails. */
struct ct_shm_slot *slot_at(struct process *p, unsigned i);
bool counts_map(struct thread *t, uint32_t func_id);

/* count.c */
/* Returns whether the thread has a row for its counted calls. */
static inline bool count_has(struct thread *t, uint64_t func_id)
{
	return likely(func_id < t->counts_cnt) || counts_map(t, func_id);
}
struct ct_count *count_get(struct thread *t, uint32_t func_id);
void count_returned(struct thread *t, const struct call *call, int32_t result, uint64_t ns);
/* Prefetches data that the return needs. */
static inline __attribute__((always_inline)) void count_fetch(const struct thread *t,
							      uint64_t func_id)
{
	__builtin_prefetch(&t->counts[func_id], 1);
	__builtin_prefetch(&t->slot->counted[func_id / 64], 1);
}
/* Call it before counting a call that has returned: the thread may be killed before the frame ends.
 * row: enum ct_shm_row; after: the row's value then. */
static inline void frame_row(struct ct_frame *f, uint32_t row, uint64_t after)
{
	f->found_ns = row;
	f->off_cpu_ns = after;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
/* Chooses which call is timed next. */
void cost_skip(struct thread *t);
/* Adds the duration of a timed call. */
void cost_add(struct thread *t, uint64_t took, uint64_t now);
/* Adds the duration of a system call of --kernel; each is timed. */
void cost_add_nv(struct thread *t, uint64_t took, uint64_t now);
static inline uint64_t random_next(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

/* pointee.c */
/* Reads the program's memory for the caller at stack position sp. Returns 0 or -EFAULT. */
int memory_read(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len);
/* As memory_read(); ok: a successful call has just read that memory. */
int memory_read_used(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len,
		     bool ok);
/* Appends the pointees of the spec at off, from caps[i] on; returns the record's size. cap_len: the
 * record's, all 0. */
uint32_t pointees_from(unsigned i, struct thread *t, const struct call *call,
		       const struct ct_spec *spec, uint8_t *rec, int16_t *cap_len, bool ok,
		       uint32_t off);
/* Copies words of a stack; left bytes are certainly mapped. Missing words are 0. */
void stack_words(uint64_t *to, uint64_t from, uint64_t left);
/* Appends a launch's CT_CAP_EXTRA, which follows the spec's counted pointees: as pointees_from().
 */
uint32_t extra_add(const struct thread *t, const struct call *call, const struct ct_spec *spec,
		   struct ct_call *rec, bool ok, uint32_t off);
/* params.c: appends a launch's CT_CAP_PARAMS, as caps[i]: as pointees_from(). */
uint32_t params_add(const struct thread *t, const struct call *call, const struct ct_cap *cap,
		    uint8_t *rec, int16_t *cap_len, bool ok, uint32_t off);
/* Stores return addresses; returns their number. */
uint32_t stack_add(const struct thread *t, const struct call *call, uint64_t *to);
void name_of_call(struct thread *t, const struct call *call, const struct ct_spec *spec, bool ok);
void names_forget(void);
/* Changes with each names_forget(). */
uint64_t names_generation(void);
/* Returns a word of the call's arguments. */
static inline uint64_t call_word(const struct call *call, unsigned i)
{
	i &= CT_MAX_WORDS - 1;
	return likely(i < REG_WORDS) ? call->regs[i] : call->stack[i - REG_WORDS];
}

/* thread.c: returns a slot for this thread, which is at stack position sp, if the process is traced
 * and has a free one; else NULL. */
struct thread *thread_begin(uint64_t sp);
/* For a thread whose look_ns has passed: sends its name if it has changed. */
void thread_look(struct thread *t, uint64_t now);
/* Finds the functions of libc that it needs. Must run early: in a child of fork another thread may
 * have held the loader's lock, and other libraries also create keys. */
void thread_setup(void);

/* collector.c: chooses a name, which children inherit; returns whether a name has that
 * form; starts a collector: 0 or -errno. */
const char *collector_name(void);
bool collector_is_name(const char *name);
/* -ENOENT: cudatrace was not found, which is reported once per name. */
int collector_start(const char *name, int *collector_pid);
/* Reports, once per name, that the collector does not listen. */
void collector_failed(const char *name);

struct hooked_cnt;

/* nccl.c */
/* Returns whether it is an NCCL function, under either of its names. */
bool nccl_is_name(const char *name);
bool nccl_is_lib(const struct object *o);
/* Searches objects loaded since the last call: NCCL, callers of NCCL, and another libcuda. */
void nccl_look(struct process *p);
/* In a child of fork: keeps the parent's hooks, and drops the memory of its tracer. */
void nccl_forked(void);
/* For the next tracer of this process. */
void nccl_again(void);
void nccl_unhook(void);

/* comm.c */
/* NCCL's functions are hooked, as far as possible. */
void comm_hook(const struct object *lib);
/* Enclose a call with HOOK_FREES. */
void comm_free_begin(uint64_t comm);
void comm_free_end(uint64_t comm);
/* Reads the communicator of cap. ok: the call succeeded. Returns its size, or -errno. */
int comm_read(struct thread *t, const struct call *call, const struct ct_cap *cap, bool ok,
	      struct ct_comm *c);

/* bypass.c */
#define BYPASS_MAX 64
#define BYPASS_SZ  8
/* Returns the address by which to call that object's function after its probe; NULL: none. */
void *bypass_new(const struct object *o, const void *entry);

/* process.c */
/* Reads the environment when the library is loaded. Returns false if the process is not to be
 * traced. */
bool process_setup(void);
bool process_is_forked(void);
/* Returns whether it is connected and has made no call yet. */
bool process_is_new_child(void);
/* Connects and hooks this libcuda; NULL: after a fork, when it is hooked already. how: enum
 * ct_shm_how. Returns false if it is not traced. */
bool process_begin(uint32_t how, const struct object *lib);
/* A tracer that listens at this name has loaded the library, or finds it in the process: connects
 * to it. -EBUSY: another tracer records the process; -ESTALE: the library was used by another kind
 * of tracer. */
int process_attach(const char *name, const uint64_t its_token[2], const struct object *lib);
/* Announces a further library of the process, by path. When the tracer has read its file, hook() is
 * called. Returns 0 or -errno. */
int process_more(const char *path, int (*hook)(struct hooked_cnt *cnt));
/* Earlier calls that no producer recorded: they are counted for the first thread. */
extern uint32_t process_missed;
/* shares.c: maps the settings and the rings. 0 or -errno. */
#define FD_CNT 3 /* of ct_shm_welcome: settings, rings, losses */
int shares_map(struct process *p, const struct ct_shm_welcome *w, const int fds[FD_CNT]);
/* lost.c: maps the losses, instead of another tracer's that the parent had. 0 or -errno. */
int lost_map(int fd);
/* Time limit of a wait for an answer. A child of fork waits only TURN_MAX_MS for each turn of the
 * tracer's loop, because the tracer may be stopped. */
#define ANSWER_MAX_S 5
#define TURN_MAX_MS  200
struct wait {
	uint32_t turn, cnt;
	uint64_t begin_ns;
};
struct wait wait_begin(void);
/* For the socket's timeout, in milliseconds. */
unsigned wait_max_ms(void);
/* A system call of the connection failed: try it again? After a signal, if the time is not over;
 * after the time, if the tracer is running. */
bool wait_goes_on(struct wait *w, long err);
/* The library does not record this process, which the tracer counts. Makes no system call. */
void process_lose(enum ct_shm_lost_why why, int err);
/* The trace has ended: nothing is recorded from now on. */
void process_end(void);
/* Restores all pointers. */
void process_unhook(void);
/* Checks whether the tracer still exists. */
void process_check_tracer(struct process *p, uint64_t now);
/* log.c: writes a line to stderr; the second only if CUDATRACE_VERBOSE is set. */
extern bool inject_verbose;
void log_warn(const char *what, int err);
void log_debug(const char *what, int err);
/* Lines are written to descriptor 2 only while it is the file that it is now. preloaded: the
 * program has not run yet. */
void log_at_load(bool preloaded);
/* Writes a number with its NUL; returns its length. */
size_t put_number(char *to, unsigned long n, unsigned base);

/* nv_hook.c: --kernel */
/* Hooks driver objects, also those that were loaded meanwhile. Returns the number of pointers. */
uint32_t nv_hook(void);
void nv_unhook(void);
/* nv.c: functions of libc, their replacements, and their operations. */
struct nv_func {
	const char *name;
	void *hook, *real;
};
#define NV_FUNC_CNT 8
extern struct nv_func nv_funcs[NV_FUNC_CNT];
/* A call in flight will not return. */
void nv_unfinished(struct thread *t, uint64_t now);

/* gpu.c: --gpu-time, --stalls. Called in cuInit(), where the driver loads tools. */
void gpu_begin(void);
/* In a running program, after the functions are hooked. */
void gpu_begin_late(void);
/* In any thread of the program, from time to time: does what the tracer has requested meanwhile. */
void gpu_look(struct process *p);

/* Waits until the thread of the previous tracer has ended. Returns false if it has not. */
bool gpu_await_end(void);
/* Returns whether the hooks stay until that thread has stopped CUPTI; then it removes them. */
bool gpu_keeps_hooks(const struct process *p);

/* gate.c */
/* Before functions are hooked. */
void gate_arm(struct process *p);
/* Enclose a call with HOOK_GATED. Returns false if the call is CUPTI's own, and not to be recorded;
 * then there is no gate_leave(). */
bool gate_enter(uint64_t sp);
void gate_leave(void);

/* device.c: queries the driver's data on a device. texts: also its name. */
void device_query(struct ct_device *d, uint32_t device, bool texts);

/* hook.c */
struct hooked_cnt {
	uint32_t slots, pointers, nv;
};
extern struct object inject_lib; /* libcuda; path NULL: not found yet */
extern uint64_t inject_is_hooked[CT_MAX_FUNCS / 64];
/* Finds functions by their names in the settings. answers: functions without a dispatch pointer are
 * hooked in the pointers that the program requests. */
void hook_all(const struct ct_shm_set *set, bool answers, struct hooked_cnt *cnt);
/* As hook_all(), for another libcuda of the process. */
void hook_more(const struct ct_shm_set *set, const struct object *lib, struct hooked_cnt *cnt);
bool hook_is_known(const struct object *lib);
void unhook_all(void);
/* Calls of the driver's hooked functions pass the gate from now on. Returns their number. */
unsigned hooks_gate(void);
/* Hooks the driver's functions that are not traced, for the gate. */
void hooks_rest(void);
/* Hooks the pointers that nvtx/ has offered, if any. */
void nvtx_hook(const struct ct_shm_set *set);
/* nvtx_tables.c, in a program that already runs: hooks pointers of NVTX that are NULL, if there are
 * any, or sets them to NULL again. */
void nvtx_tables_hook(const struct ct_shm_set *set);
void nvtx_tables_unhook(void);
/* Returns what to put into a pointer that is NULL: calls are recorded, and then do what real does.
 * NULL: they are not to be recorded. */
void *hook_alone(const struct ct_shm_set *set, const char *name, void *real);
/* Calls through a pointer of that name, which is not the driver's. */
void hook_place(const struct ct_shm_set *set, const char *name, void **at, void *real);
/* The next tracer gets only the functions that are hooked for it. */
void hooks_forget(void);
/* Returns whether the ids still stand for the hooked functions. */
bool hooks_match(const struct ct_shm_set *set);
/* Returns the function that a driver export leads to, behind probes and thunks; NULL: unknown. */
void *hook_beneath(const char *name);
/* Returns whether an address lies in the export itself. */
bool hook_is_entry(uint32_t hook, uint64_t addr);
/* Returns the pointer that the program gets instead of this one. */
void *hook_answer(void *p);
/* As hook_answer(), for a symbol that the loader has not resolved yet; NULL: it may belong to
 * another library. */
void *hook_lazy(const struct object *lib, const char *name);
/* Returns whether there are functions with this prefix. */
bool hook_has(const struct ct_shm_set *set, const char *prefix);
/* Keeps a library loaded, because thunks lead to it, and programs unload it after errors. Returns
 * false if it is not loaded. */
bool hook_pin(const char *path);
/* Hooks functions with this prefix of a library other than the driver, in the pointers that the
 * program gets. The library then stays loaded; returns false if that fails. */
bool hook_named(const struct ct_shm_set *set, const struct object *lib, const char *prefix,
		struct hooked_cnt *cnt);

/* maps.c: finds the mapping of an address. Returns false if there is none, or it cannot be read. */
struct mapping {
	uintptr_t lo, hi;
	bool write;
};
bool maps_find(uintptr_t addr, struct mapping *m);
/* arm64 may have larger pages. */
static inline uintptr_t page_size(void)
{
#ifdef __x86_64__
	return 4096;
#else
	return inject_libc.page_size;
#endif
}

/* pointer.c */
/* Replaces a pointer in a table that the dynamic loader has filled, if it has the expected value.
 * Returns false if it has another value, or the loader has not finished with the object. */
bool pointer_put(const struct object *o, void **at, void *was, void *to);
/* Calls fn for each pointer in an object's tables that refers to a symbol of another object. */
void object_pointers(const struct object *o,
		     void (*fn)(const struct object *o, void **at, const char *name, bool is_lazy));

/* Indexed by the number of the hook. */
static inline void *thunk_of(unsigned hook)
{
	return inject_thunks + (size_t)hook * THUNK_SZ;
}
static inline bool is_thunk(const void *p)
{
	return (uintptr_t)p - (uintptr_t)inject_thunks < (uintptr_t)CT_MAX_FUNCS * THUNK_SZ;
}
static inline unsigned thunk_id(const void *thunk)
{
	return ((uintptr_t)thunk - (uintptr_t)inject_thunks) / THUNK_SZ;
}
/* Returns the function behind a thunk; any other pointer is returned unchanged. */
static inline void *thunk_real(void *p)
{
	return is_thunk(p) ? inject_hooks[thunk_id(p)].real : p;
}

/* Adds atomically with respect to signal handlers of the same thread. */
static inline void bump(__u64 *n)
{
#ifdef __x86_64__
	__asm__ volatile("addq $1, %0" : "+m"(*n));
#else
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
#endif
}

#endif /* INJECT_H */
