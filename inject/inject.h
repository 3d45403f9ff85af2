/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library in the traced process: what its parts share.
 *
 * A driver's function leads to its thunk (thunk.S), by way of the driver's own dispatch pointers
 * (hook.c) or of a pointer that the program was given instead (main.c). The thunk calls
 * inject_enter(), the real function and inject_exit() (record.c). Those take no lock, allocate
 * nothing, wait for nobody and keep errno: what a thread or a process needs first is set up in
 * thread.c and process.c.
 */
#ifndef INJECT_H
#define INJECT_H

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
/* What each call runs lies together (.text.hot): between two calls a program's own code has pushed
 * it out of the caches, and each line of it has to be fetched. What few calls need is not there. */
#define hot  __attribute__((hot))
#define cold __attribute__((cold, noinline))
/* A pointer that is worked out once: else gcc does it again wherever it is used, which is more code
 * to be fetched. */
#define once(p)                                                                                    \
	({                                                                                         \
		__auto_type p_ = (p);                                                              \
                                                                                                   \
		__asm__("" : "+r"(p_));                                                            \
		p_;                                                                                \
	})

/* Words of the caller's stack that a thunk passes on: no function of the driver has more than 10;
 * of NCCL's, ncclCommInitRank() has a ncclUniqueId there, which is 16. */
#define STACK_WORDS 16

/* A call, in the frame of its thunk: thunk.S knows where the first members are. */
struct call {
	uint64_t stack[STACK_WORDS]; /* passed on */
	uint64_t regs[REG_WORDS];
	uint64_t func_id;
	uint64_t sp; /* at the entry point */
	uint64_t fp; /* the caller's frame pointer */
	uint64_t ret;
	/* Set by inject_enter(). NULL: nothing is to be done when it returns. */
	struct thread *t;
	uint64_t start_ns;
	uint32_t gen;	     /* process.alive */
	uint32_t depth;	     /* of its frame */
	uint32_t timed_ns;   /* what inject_enter() took; 0: not timed */
	uint16_t role, hook; /* its hook, and what that has: whether the call is traced or not */
	const struct ct_spec *spec;
	struct ct_frame *frame;
};
_Static_assert(offsetof(struct call, regs) == 128, "see thunk.S");
_Static_assert(offsetof(struct call, t) == 128 + 8 * (REG_WORDS + 4), "see thunk.S");
_Static_assert(sizeof(struct call) <= CALL_ROOM, "see thunk.S");

/* What a thread that has a slot needs, the process's own: another process cannot change it. What
 * each call needs is first. */
struct thread {
	struct ct_shm_slot *slot;
	uint8_t *ring;
	uint64_t ring_sz;
	uint64_t busy_sp;	     /* of the call that has set slot->busy; 0: none */
	uint64_t tsc0, ns0, last_ns; /* clock.c; only while busy_sp is set */
	uint32_t skip;		     /* calls until one is timed */
	uint32_t tid;
	uint64_t room_end;	     /* a record behind which head is not beyond it has room */
	uint64_t mult;		     /* clock.c: the process's, as last seen */
	uint64_t sent_id, sent_head; /* the last call's record, and head before it */
	struct ct_count *counts;     /* of so many functions; slots.c */
	uint32_t counts_cnt;
	uint32_t look_cnt;
	uint64_t look_ns;			/* when the thread's name is looked at again */
	const struct call *calls[CT_MAX_DEPTH]; /* of the slot's frames; may be gone */
	uint64_t stack_lo, stack_hi; /* of the stack that the system gave it; 0: not known */
	uint64_t random;
	uint64_t since_ns, cost_then; /* a second begins; what had been spent by then */
	uint64_t comm;		      /* that comm.c reads; 0: none */
	char name[16];		      /* as the tracer has it */
	/* nv.c: where the function is on the stack that has made the slot's nv active, 0: none; the
	 * last call that a record of a system call names; what came before the system call took */
	uint64_t nv_sp, nv_call, nv_took;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct thread, room_end) == 64, "a cache line");

/* In pages that a child of fork finds zeroed. */
struct process {
	const struct ct_shm_set *set; /* thunk.S reads it, too; NULL: not connected yet */
	uint32_t alive; /* not 0: there is a tracer, and the rest is valid; another number with each
			 * connection of this process and its ancestors */
	uint32_t given_up; /* nobody is to be asked any more */
	uint32_t starting; /* thread id of who is about to connect */
	int pid;
	struct ct_shm *shm;
	uint64_t asked_ns; /* whether the tracer is still there */
	uint32_t level;	   /* enum ct_proc_level, as last seen */
	uint32_t muted;	   /* functions lead here already, but probes still see their calls */
	/* clock.c: 2^32 ns a cycle; 0: not known. When it was measured last. */
	uint64_t mult, cal_tsc, cal_ns;
	uint32_t measuring, tsc_ok;
	bool whole;				 /* all of shm is mapped */
	struct ct_shm_slot *slots[CT_SHM_SLOTS]; /* those that are mapped, the first of them */
	struct thread threads[CT_SHM_SLOTS];
};

_Static_assert(offsetof(struct process, set) == 0, "see thunk.S");
_Static_assert(offsetof(struct ct_shm_set, changed_ns) == 40, "see thunk.S");

/* Never NULL. */
extern struct process *inject_process;
/* The program has a filter for its own system calls: any of the library's might end it, so there
 * are none from here on. */
extern uint32_t inject_sandboxed;
/* sandbox.c: was there none when the command was started? Then that is told. */
bool sandbox_has_come(void);
void inject_clock_off(void);
/* For programs that are started from here: those that there are now are not theirs. */
void sandbox_keep(void);
static inline bool is_quiet(void);
/* Waits a moment, for another thread. */
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
/* Of this thread: its slot; of which process.alive; calls until a slot is looked for again. And
 * what a call is going to write, to be fetched at once: nothing else is done by these pointers. */
struct tls {
	struct thread *t;
	uint32_t gen, wait;
	const struct ct_shm_slot *slot;
	const uint8_t *next;	      /* the next record */
	const struct ct_frame *frame; /* the next call's, if it comes soon */
	struct process *process;
} __attribute__((aligned(64)));
extern __thread struct tls inject_me;
/* What a function's calls are good for, beside being traced. */
enum hook_role {
	HOOK_NONE,
	HOOK_ANSWERS, /* *pfn gets a thunk: cuGetProcAddress() and its newer form */
	HOOK_FREES,   /* a communicator of NCCL's, its first argument: comm.c */
};
struct hook {
	void *real;   /* what the thunk calls. NULL: the function is not hooked */
	void *bypass; /* the same, past its probe if it has one (bypass_new()), for calls that are
		       * recorded here, or off */
	/* The settings' changed_ns at which its calls are off: while that is so, thunk.S goes past,
	 * and nothing else is done. 0: not so. */
	uint64_t off_ns;
	uint32_t role; /* enum hook_role */
	uint32_t func_id;
} __attribute__((aligned(32)));
_Static_assert(sizeof(struct hook) == 32 && offsetof(struct hook, bypass) == 8 &&
		       offsetof(struct hook, off_ns) == 16,
	       "see thunk.S");
/* A function of the first libcuda, and of other libraries, has the one of its id. Those of a second
 * libcuda have what is free, from the last on. */
extern struct hook inject_hooks[CT_MAX_FUNCS];
/* All its calls come to inject_enter() from here on, those that are off, too. */
static inline void hook_role_set(uint32_t i, enum hook_role role)
{
	__atomic_store_n(&inject_hooks[i].role, role, __ATOMIC_SEQ_CST);
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
/* Is somebody who stands there called from a signal handler that came into what has set the mark?
 * Not so if that was left by a longjmp. */
static inline bool is_within(const struct thread *t, uint64_t sp, uint64_t mark)
{
	return mark && (sp < mark || inject_on_other_stack(t, sp, mark));
}
/* Where a function stands. */
#define PLACE ((uintptr_t)__builtin_frame_address(0))
/* A record is being made, by who stands there. One store decides for signal handlers. */
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
/* Its calls are not going to return: their records, and no frame is left. */
void inject_unfinished(struct thread *t, uint64_t now);

/* clock.c */
bool clock_setup(struct process *p);
/* What to take from CLOCK_MONOTONIC (src/util/clock.h). */
void clock_set_offset(int64_t ns);
/* Slower, and corrects what thread_now() goes by. */
uint64_t clock_anchor(struct process *p, struct thread *t);
#define CLOCK_SPAN (1ull << 22) /* cycles: 1 or 2 ms */
/* CLOCK_MONOTONIC in nanoseconds, never less than before; only while busy_sp is set. */
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
/* Room for a record of that size at most; NULL: there is none. What is written there is sent by
 * ring_send(). */
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

/* slots.c: parts of the process's memory, mapped when they are needed; NULL or false: they cannot
 * be.
 */
struct ct_shm_slot *slot_at(struct process *p, unsigned i);
bool counts_map(struct thread *t, uint32_t func_id);

/* count.c */
/* Has the thread a row for its calls that are counted? */
static inline bool count_has(struct thread *t, uint64_t func_id)
{
	return likely(func_id < t->counts_cnt) || counts_map(t, func_id);
}
struct ct_count *count_get(struct thread *t, uint32_t func_id);
void count_returned(struct thread *t, const struct call *call, int32_t result, uint64_t ns);
/* What the return is going to need. */
static inline __attribute__((always_inline)) void count_fetch(const struct thread *t,
							      uint64_t func_id)
{
	__builtin_prefetch(&t->counts[func_id], 1);
	__builtin_prefetch(&t->slot->counted[func_id / 64], 1);
}
/* Before a call is counted that has returned: its thread may be killed between that and the end of
 * its frame. row: enum ct_shm_row; after: what it has there then. */
static inline void frame_row(struct ct_frame *f, uint32_t row, uint64_t after)
{
	f->found_ns = row;
	f->off_cpu_ns = after;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
/* When a call is timed next. */
void cost_skip(struct thread *t);
/* A call was timed, and took so long. */
void cost_add(struct thread *t, uint64_t took, uint64_t now);
/* A system call of --kernel took so long: each is timed. */
void cost_add_nv(struct thread *t, uint64_t took, uint64_t now);
static inline uint64_t random_next(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random;
}

/* pointee.c */
/* Reads memory of the program, for who stands at sp. 0 or -EFAULT. */
int memory_read(const struct thread *t, uint64_t sp, void *to, uint64_t addr, size_t len);
/* Appends what the spec asks for at off, from caps[i] on; returns the record's size. cap_len: the
 * record's, all 0. */
uint32_t pointees_from(unsigned i, struct thread *t, const struct call *call,
		       const struct ct_spec *spec, uint8_t *rec, int16_t *cap_len, bool ok,
		       uint32_t off);
/* Words of a stack from an address on, of which left bytes are certainly there; 0 for what is not.
 */
void stack_words(uint64_t *to, uint64_t from, uint64_t left);
/* A launch's CT_CAP_EXTRA, which its spec has behind those that it counts: as pointees_from(). */
uint32_t extra_add(const struct thread *t, const struct call *call, const struct ct_spec *spec,
		   struct ct_call *rec, bool ok, uint32_t off);
/* Return addresses; their number. */
uint32_t stack_add(const struct thread *t, const struct call *call, uint64_t *to);
void name_of_call(struct thread *t, const struct call *call, const struct ct_spec *spec, bool ok);
void names_forget(void);
/* A word of the call's arguments. */
static inline uint64_t call_word(const struct call *call, unsigned i)
{
	i &= CT_MAX_WORDS - 1;
	return likely(i < REG_WORDS) ? call->regs[i] : call->stack[i - REG_WORDS];
}

/* thread.c: a slot for this thread, which stands at sp, if the process is traced and there is one;
 * NULL. */
struct thread *thread_begin(uint64_t sp);
/* Of a thread whose look_ns has come: the tracer is told when it has another name. */
void thread_look(struct thread *t, uint64_t now);
/* Finds what it needs of libc. Not later: in a child of fork the loader's lock may be one's who is
 * not there; and other libraries make keys, too. */
void thread_setup(void);

/* collector.c: a name for one, which children inherit; is it such; starts it: 0 or -errno. */
const char *collector_name(void);
bool collector_is_name(const char *name);
/* -ENOENT: there is no cudatrace, which is told once for a name. */
int collector_start(const char *name);

struct hooked_cnt;

/* nccl.c */
/* Is it one of NCCL's functions, under either of its names? */
bool nccl_is_name(const char *name);
bool nccl_is_lib(const struct object *o);
/* Finds what was loaded since the last look: NCCL, or who calls it; and another libcuda. */
void nccl_look(struct process *p);
/* A child of fork has what its parent had hooked, and another tracer's memory. */
void nccl_forked(void);
void nccl_unhook(void);

/* comm.c */
/* NCCL's functions are hooked, as far as they can be. */
void comm_hook(const struct object *lib);
/* Around a call with HOOK_FREES. */
void comm_free_begin(uint64_t comm);
void comm_free_end(uint64_t comm);
/* The communicator that cap says. ok: the call went well. Its size, or -errno. */
int comm_read(struct thread *t, const struct call *call, const struct ct_cap *cap, bool ok,
	      struct ct_comm *c);

/* bypass.c */
#define BYPASS_MAX 64
#define BYPASS_SZ  8
/* A way to call a function of that object without its probe; NULL: there is none. */
void *bypass_new(const struct object *o, const void *entry);

/* process.c */
/* From the environment, when the library is loaded. False: the process is not to be traced. */
bool process_setup(void);
bool process_is_forked(void);
/* And has made no call yet? */
bool process_is_new_child(void);
/* Connects and hooks this libcuda; NULL: after a fork, when that has been done. how: enum
 * ct_shm_how. False: it is not traced. */
bool process_begin(uint32_t how, const struct object *lib);
/* The process has one more library, of that path: when the tracer has read its file, hook() is
 * called. 0 or -errno. */
int process_more(const char *path, int (*hook)(struct hooked_cnt *cnt));
/* Calls that were made before and that nobody has seen: they are counted with the first thread's.
 */
extern uint32_t process_missed;
/* Nobody wants to know any more: nothing is recorded from here on. */
void process_end(void);
/* The tracer has not been heard of: is it there? */
void process_ask(struct process *p, uint64_t now);
/* tell.c: a line to stderr; the second, if CUDATRACE_VERBOSE is set. */
extern bool inject_verbose;
void tell(const char *what, int err);
void say(const char *what, int err);
/* Writes a number with its NUL; returns its length. */
size_t put_number(char *to, unsigned long n, unsigned base);

/* nv_hook.c: --kernel */
/* Objects of the driver that were loaded meanwhile are hooked, too. Pointers, in all. */
uint32_t nv_hook(void);
void nv_unhook(void);
/* nv.c: functions of libc, what is called instead of them, and what they are. */
struct nv_func {
	const char *name;
	void *ours, *real;
};
#define NV_FUNC_CNT 8
extern struct nv_func nv_funcs[NV_FUNC_CNT];
/* One in flight does not return. */
void nv_unfinished(struct thread *t, uint64_t now);

/* gpu.c: --gpu-time. Called where the driver lets tools in, in cuInit(). */
void gpu_begin(void);

/* device.c: what the driver says of a device. texts: and what it is called. */
void device_ask(struct ct_device *d, uint32_t device, bool texts);

/* hook.c */
struct hooked_cnt {
	uint32_t slots, pointers, nv;
};
extern struct object inject_lib; /* libcuda; path NULL: not found yet */
extern uint64_t inject_is_hooked[CT_MAX_FUNCS / 64];
/* Looks for functions by their names in the settings. answers: those without a slot are had by the
 * pointers that the program asks for. */
void hook_all(const struct ct_shm_set *set, bool answers, struct hooked_cnt *cnt);
/* The same of another libcuda that the process has, too. */
void hook_more(const struct ct_shm_set *set, const struct object *lib, struct hooked_cnt *cnt);
bool hook_is_known(const struct object *lib);
void unhook_all(void);
/* What nvtx/ has offered, if anything: its pointers lead here from now on. */
void nvtx_hook(const struct ct_shm_set *set);
/* Calls that go through a pointer of that name, which is not the driver's. */
void hook_place(const struct ct_shm_set *set, const char *name, void **at, void *real);
/* Do the ids still stand for the functions that are hooked? */
bool hooks_match(const struct ct_shm_set *set);
/* What an export of the driver leads to, past probes and thunks; NULL: that cannot be seen. */
void *hook_beneath(const char *name);
/* Does an address lie in the export itself? */
bool hook_is_entry(uint32_t hook, uint64_t addr);
/* What the program gets instead of this pointer. */
void *hook_answer(void *p);
/* The same of a symbol that the loader has not looked up yet; NULL: it need not be this library's.
 */
void *hook_lazy(const struct object *lib, const char *name);
/* Are there functions whose names begin so? */
bool hook_has(const struct ct_shm_set *set, const char *prefix);
/* Functions of another library than the driver's, whose names begin so, are had by the pointers
 * that the program gets. The library stays from then on; false: it cannot be made to. */
bool hook_named(const struct ct_shm_set *set, const struct object *lib, const char *prefix,
		struct hooked_cnt *cnt);

/* maps.c: what is mapped at an address; false: nothing, or that cannot be found. */
struct mapping {
	uintptr_t lo, hi;
	bool write;
};
bool maps_find(uintptr_t addr, struct mapping *m);
/* arm64's may be larger. */
static inline uintptr_t page_size(void)
{
#ifdef __x86_64__
	return 4096;
#else
	return inject_libc.page_size;
#endif
}

/* pointer.c */
/* A pointer of a table that the dynamic loader has filled, if it still is what it was. False: it is
 * not, or the loader is not through with the object. */
bool pointer_put(const struct object *o, void **at, void *was, void *to);
/* Calls fn for each pointer in an object's tables that a symbol of another object is for. */
void object_pointers(const struct object *o,
		     void (*fn)(const struct object *o, void **at, const char *name, bool is_lazy));

/* By the number of its hook. */
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
/* What a thunk calls; anything else is what it is. */
static inline void *thunk_real(void *p)
{
	return is_thunk(p) ? inject_hooks[thunk_id(p)].real : p;
}

/* What a signal handler may add to as well, in the middle of it. */
static inline void bump(__u64 *n)
{
#ifdef __x86_64__
	__asm__ volatile("addq $1, %0" : "+m"(*n));
#else
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
#endif
}

#endif /* INJECT_H */
