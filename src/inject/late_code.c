/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Code that runs in a traced process, behind the text of one of its libraries. It is copied as it
 * is: it must refer to nothing outside its section, and it is compiled with flags of its own
 * (Makefile). It writes nothing but stacks, struct late_state, and the driver's dispatch pointers.
 * It needs no tracer, which may have been killed meanwhile.
 *
 * Dispatch pointers of the driver lead to the entries below. Each thread that comes restores the
 * pointer, once the tracer has written all. The first one restores all, and creates a thread; all
 * continue with the driver's function. The new thread loads the library and calls it. It does not
 * write to the driver, which the program may have unloaded by then.
 *
 * In a child of fork() during a dlopen() of another thread, later calls of dlopen() hang: the child
 * inherits a locked lock of the loader. So fork() and this dlopen() exclude each
 * other, by handlers that stay registered. Nobody waits longer than a second.
 */
#include "late_code.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define CODE   __attribute__((section("late_code"), noinline, used))
#define INLINE inline __attribute__((always_inline))
/* glibc's RTLD_NOW */
#define NOW 2
/* fork() in another thread that has passed its handlers ends within this time. */
#define FORK_NS	  50000000
#define NAP_NS	  200000
#define NAPS_MAX  5000
#define CPU_WORDS 128
/* 140 cycles each from Skylake on, 10 to 65 on other processors: at most some 5 ms. */
#define GO_PAUSES 100000
/* tid in glibc's struct pthread, on x86-64 since 2.4. The tracer checks that it is a thread. */
#define GLIBC_TID 720
/* Programs may have a smaller default than dlopen() needs. */
#define STACK_SZ (1 << 20)
/* For the tracer to fill the library's memfd. */
#define FILL_NAPS_MAX 25000
#define ALLOW_SEALING 2 /* MFD_ALLOW_SEALING, and with MFD_CLOEXEC: */
#define NOEXEC_SEAL   8 /* MFD_NOEXEC_SEAL: Linux 6.3; vm.memfd_noexec may require it */

/*
 * A thread arrives as in a call of the driver's function. Argument registers, the vector registers
 * and all others that a caller may use are kept. r11 is free at the entry of a function.
 *
 * XSAVE saves x87, SSE, AVX and AVX-512: 2,688 bytes. Its header, bytes 512 to 575, must be zero.
 */
__asm__(".pushsection late_code, \"ax\", @progbits\n"
	".balign 64\n"
	".hidden late_entries, late_data\n"
	".globl late_entries, late_data\n"
	"late_entries:\n"
	".set n, 0\n"
	".rept 12\n"
	"	endbr64\n"
	"	mov $n, %r11d\n"
	"	jmp late_arrive\n"
	"	.balign 16\n"
	"	.set n, n + 1\n"
	".endr\n"
	"late_arrive:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	push %rax; push %rcx; push %rdx; push %rsi; push %rdi\n"
	"	push %r8; push %r9; push %r10; push %rbx\n"
	"	and $-64, %rsp\n"
	"	mov %r11d, %edi\n"
	"	call late_take\n"
	"	mov %rax, %rbx\n"
	"	test %edx, %edx\n"
	"	jz 1f\n"
	"	sub $2752, %rsp\n"
	"	lea 512(%rsp), %rdi\n"
	"	xor %eax, %eax\n"
	"	mov $8, %ecx\n"
	"	rep stosq\n"
	"	mov $0xe7, %eax\n"
	"	xor %edx, %edx\n"
	"	xsave64 (%rsp)\n"
	"	call late_create\n"
	"	mov $0xe7, %eax\n"
	"	xor %edx, %edx\n"
	"	xrstor64 (%rsp)\n"
	"1:	mov %rbx, %r11\n"
	"	lea -72(%rbp), %rsp\n"
	"	pop %rbx; pop %r10; pop %r9; pop %r8\n"
	"	pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax; pop %rbp\n"
	"	jmp *%r11\n"
	".balign 16\n"
	"late_data: .zero 400\n"
	".popsection\n");
_Static_assert(LATE_SLOTS == 12 && LATE_ENTRY_SZ == 16, "late_entries");
_Static_assert(sizeof(struct late_data) == 400, "late_data");

CODE static long call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

static INLINE struct late_state *state(void)
{
	return (struct late_state *)late_data.state;
}

/* The thread's control block: its own address is its first word. */
static INLINE uint64_t self(void)
{
	uint64_t tcb;

	__asm__("mov %%fs:0, %0" : "=r"(tcb));
	return tcb;
}

CODE static void nap(long ns)
{
	struct timespec t = {0, ns};

	call(SYS_nanosleep, (long)&t, 0, 0, 0);
}

CODE static void restore(unsigned i)
{
	uint64_t entry = (uint64_t)late_entries + i * LATE_ENTRY_SZ;

	if (late_data.slots[i].at)
		__atomic_compare_exchange_n((uint64_t *)late_data.slots[i].at, &entry,
					    late_data.slots[i].real, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
}

CODE static void end(struct late_state *s, uint32_t step, int result)
{
	s->step = step;
	s->result = result;
	__atomic_store_n(&s->done, s->taken, __ATOMIC_RELEASE);
}

/*
 * The process may have installed system call filters since the tracer read them. The tracer looks
 * again while this thread is here, where it cannot install any, and makes no system call.
 * A tracer that does not run costs milliseconds.
 */
CODE static bool await_go(struct late_state *s, uint32_t ticket)
{
	uint32_t go;

	s->tid = *(const uint32_t *)(self() + GLIBC_TID);
	s->stack = (uint64_t)__builtin_frame_address(0);
	__atomic_store_n(&s->waiting, ticket, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < GO_PAUSES; i++) {
		go = __atomic_load_n(&s->go, __ATOMIC_ACQUIRE);
		if (go == ticket || go == ~ticket)
			return go == ticket;
		__builtin_ia32_pause();
	}
	return false;
}

struct arrival {
	uint64_t real, is_first;
};

CODE struct arrival late_take(unsigned i)
{
	struct late_state *s = state();
	uint32_t ticket = __atomic_load_n(&s->ticket, __ATOMIC_ACQUIRE), before = ticket - 1;
	struct arrival a = {late_data.slots[i].real, 0};

	/* The tracer is still writing pointers: do nothing, and do not restore this one yet. */
	if (!ticket)
		return a;
	restore(i);
	if (!__atomic_compare_exchange_n(&s->taken, &before, ticket, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return a;
	/* Now the driver is loaded: this is a call of it. */
	for (i = 0; i < LATE_SLOTS; i++)
		restore(i);
	if (!await_go(s, ticket)) {
		end(s, LATE_GO, -ETIMEDOUT);
		return a;
	}
	s->pid = call(SYS_getpid, 0, 0, 0, 0);
	a.is_first = 1;
	return a;
}

CODE static void lock(struct late_state *s)
{
	uint64_t me = self();

	for (unsigned i = 0; i < NAPS_MAX; i++) {
		uint64_t owner = 0;

		if (__atomic_compare_exchange_n(&s->owner, &owner, me, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED) ||
		    owner == me)
			return;
		nap(NAP_NS);
	}
}

CODE static void unlock(struct late_state *s)
{
	if (__atomic_load_n(&s->owner, __ATOMIC_RELAXED) == self())
		__atomic_store_n(&s->owner, 0, __ATOMIC_RELEASE);
}

CODE static void late_before_fork(void)
{
	lock(state());
}

CODE static void late_after_fork(void)
{
	unlock(state());
}

/* Threads inherit these. With a priority, or bound to a processor that another thread keeps busy,
 * this one would hold the loader's lock for long. */
static INLINE void be_ordinary(void)
{
	struct sched_param none = {0};
	volatile uint64_t all[CPU_WORDS / 8];

	for (unsigned i = 0; i < CPU_WORDS / 8; i++)
		all[i] = ~0ull;
	call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none, 0);
	call(SYS_sched_setaffinity, 0, sizeof(all), (long)all, 0);
}

/* Returns a memfd that the tracer has filled and sealed, or -errno. */
static INLINE int make_file(struct late_state *s)
{
	int fd = call(SYS_memfd_create, (long)late_data.path, 1 | NOEXEC_SEAL, 0, 0);

	if (fd == -EINVAL)
		fd = call(SYS_memfd_create, (long)late_data.path, 1 | ALLOW_SEALING, 0, 0);
	if (fd < 0)
		return fd;
	__atomic_store_n(&s->file, fd + 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < FILL_NAPS_MAX; i++) {
		long seals = call(SYS_fcntl, fd, F_GET_SEALS, 0, 0);

		if (seals < 0 || seals & F_SEAL_SEAL)
			break;
		nap(NAP_NS);
	}
	__atomic_store_n(&s->file, 0, __ATOMIC_RELEASE);
	if (call(SYS_fcntl, fd, F_GET_SEALS, 0, 0) & F_SEAL_SEAL)
		return fd;
	call(SYS_close, fd, 0, 0, 0);
	return -ETIMEDOUT;
}

/* Strings would be in another section: these are bytes of little-endian words. */
static INLINE void fd_path(volatile char *to, unsigned fd)
{
	volatile uint64_t *words = (volatile uint64_t *)to;
	unsigned power = 1;

	words[0] = 0x65732f636f72702f; /* "/proc/se" */
	words[1] = 0x002f64662f666c;   /* "lf/fd/" */
	to += 14;
	while (fd / power >= 10)
		power *= 10;
	for (; power; power /= 10)
		*to++ = '0' + fd / power % 10;
	*to = 0;
}

/* Returns the library's function, or 0 after storing why. */
static INLINE uint64_t load(struct late_state *s)
{
	void *(*open)(const char *, int) = (void *)late_data.dlopen;
	void *(*find)(void *, const char *) = (void *)late_data.dlsym;
	char before[16] __attribute__((aligned(8))), path[32] __attribute__((aligned(8)));
	volatile uint64_t name[3];
	int fd = -1;
	void *lib, *attach;

	if (late_data.path[0] != '/') {
		fd = make_file(s);
		if (fd < 0) {
			end(s, LATE_FILE, fd);
			return 0;
		}
		fd_path(path, fd);
	}
	name[0] = 0x6361727461647563; /* LATE_THREAD_NAME */
	name[1] = 0x006574616c2d65;
	call(SYS_prctl, PR_GET_NAME, (long)before, 0, 0);
	call(SYS_prctl, PR_SET_NAME, (long)name, 0, 0);
	lock(s);
	lib = open(fd >= 0 ? path : late_data.path, NOW);
	unlock(s);
	call(SYS_prctl, PR_SET_NAME, (long)before, 0, 0);
	if (fd >= 0)
		call(SYS_close, fd, 0, 0, 0);
	name[1] = 0x6863617474615f65; /* "cudatrace_attach" */
	name[2] = 0;
	attach = lib ? find(lib, (const char *)name) : 0;
	if (!attach)
		end(s, LATE_OPEN, lib ? -ENOEXEC : -ELIBACC);
	return (uint64_t)attach;
}

CODE static void *late_thread(void *arg)
{
	int (*atfork)(void (*)(void), void (*)(void), void (*)(void), void *) =
		(void *)late_data.register_atfork;
	struct late_state *s = state();
	int (*attach)(const char *, const uint64_t *);

	be_ordinary();
	if (!s->has_fork_rule && !atfork(late_before_fork, late_after_fork, late_after_fork, 0))
		s->has_fork_rule = 1;
	if (!s->attach) {
		nap(FORK_NS);
		s->attach = load(s);
	}
	attach = (int (*)(const char *, const uint64_t *))s->attach;
	if (attach)
		end(s, LATE_CONNECT, attach(s->socket, s->token));
	return arg;
}

/* In a thread of the program: no lock is taken that another thread could hold for long, or this
 * one, because the tracer lets no signal handler go on; and errno stays. The new thread inherits
 * the mask: it handles no signals of the program. The two signals by which glibc changes the ids of
 * all threads, and cancels, must reach it. */
CODE void late_create(void)
{
	int (*create)(uint64_t *, const void *, void *(*)(void *), void *) =
		(void *)late_data.pthread_create;
	int (*attr_init)(void *) = (void *)late_data.attr_init;
	int (*attr_detach)(void *, int) = (void *)late_data.attr_detach;
	int (*attr_stack)(void *, size_t) = (void *)late_data.attr_stack;
	pthread_attr_t attr;
	int *(*errno_at)(void) = (void *)late_data.errno_location;
	uint64_t mask = ~(3ull << 31), before, thread;
	struct late_state *s = state();
	int *err, saved, ret;

	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&before, 8);
	err = errno_at();
	saved = *err;
	attr_init(&attr);
	attr_detach(&attr, PTHREAD_CREATE_DETACHED);
	attr_stack(&attr, STACK_SZ);
	ret = create(&thread, &attr, late_thread, 0);
	if (ret)
		end(s, LATE_THREAD, -ret);
	*err = saved;
	call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
}
#endif
