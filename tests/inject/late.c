/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * late KIND: a program that checks itself while tracers enter it (--probe=inject -p). Launches of
 * thread K have the grid (N, K, 7), N from 1 on. Ends at SIGTERM with "K N" for each thread, and
 * status 0 if nothing was harmed.
 *
 *   call      threads that launch; arguments and errno are checked
 *   registers values in vector and other registers over the call, as generated code may have them
 *   malloc    allocations of all sizes between launches
 *   fork      children that allocate and load libraries
 *   dlopen    libraries are loaded and unloaded all the time
 *   signal    SIGPROF at 2 kHz
 *   small     stacks of 16 KB
 *   wait      system calls with timeouts, whose results are checked
 *   headless  as call; the main thread ends
 *   idle      one launch a minute
 *   handler   launches in signal handlers that interrupt malloc()
 *   deep      launches in signal handlers with 1 MB of their own on the stack
 *   unload    libcuda is unloaded right after each launch, before a new thread can run
 *   docker    below a system call filter (seccomp) as of a container
 *   only      a filter that kills at all calls but those named by further arguments
 *   filters   two filters, of which the newer one only logs
 *   kills     a filter that kills at openat()
 *   refuses   a filter by which mmap() of code fails
 *   one       one thread alone has a filter that kills at openat()
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static int (*launch)(uintptr_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
		     uint32_t, uintptr_t, uintptr_t, uintptr_t);
static volatile sig_atomic_t stop, continued;
static uint32_t calls[THREADS + 1];
static void *lib;

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "late: line %d: %s, errno %d\n", __LINE__, #x, errno);     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void nap(unsigned us)
{
	struct timespec t = {0, us * 1000};

	while (nanosleep(&t, &t))
		;
}

static void call(unsigned k)
{
	uint32_t n = ++calls[k];
	uint64_t f = n + 16ull * k;

	errno = (int)(n % 100);
	MUST(!launch(f, n, k, 7, n % 1000 + 1, k, 3, n % 4096, f + 8, 0, 0));
	MUST(errno == (int)(n % 100));
}

static void do_call(unsigned k)
{
	call(k);
	nap(20);
}

/* The callee (late_lib.c) changes none of these, so a compiler that knows it may rely on them. */
static void do_registers(unsigned k)
{
	struct {
		uint64_t f, n, k, d, shared, stream, r12, r15, r12_after, r15_after;
		double in[12], out[12];
	} v = {.n = ++calls[k], .k = k};

	v.f = v.n + 16 * v.k;
	v.d = v.n % 1000 + 1;
	v.shared = v.n % 4096;
	v.stream = v.f + 8;
	v.r12 = v.n * 0x9e3779b97f4a7c15;
	v.r15 = ~v.r12;
	for (int i = 0; i < 12; i++)
		v.in[i] = (double)(v.r12 >> (i + 1));
	__asm__ volatile(
		"push %%rbp; mov %%rsp, %%rbp; sub $128, %%rsp; and $-16, %%rsp\n"
		"sub $48, %%rsp\n"
		"mov 48(%[v]), %%r12; mov 56(%[v]), %%r15\n"
		"movupd 80(%[v]), %%xmm0; movupd 96(%[v]), %%xmm3; movupd 112(%[v]), %%xmm7\n"
		"movupd 128(%[v]), %%xmm8; movupd 144(%[v]), %%xmm11\n"
		"movupd 160(%[v]), %%xmm15\n"
		"mov 32(%[v]), %%rax; mov %%rax, 8(%%rsp)\n"
		"movq $3, (%%rsp)\n"
		"mov 40(%[v]), %%rax; mov %%rax, 16(%%rsp)\n"
		"movq $0, 24(%%rsp); movq $0, 32(%%rsp)\n"
		"mov (%[v]), %%rdi; mov 8(%[v]), %%rsi; mov 16(%[v]), %%rdx\n"
		"mov $7, %%ecx; mov 24(%[v]), %%r8; mov 16(%[v]), %%r9\n"
		"call *%[fn]\n"
		"movupd %%xmm0, 176(%[v]); movupd %%xmm3, 192(%[v])\n"
		"movupd %%xmm7, 208(%[v]); movupd %%xmm8, 224(%[v])\n"
		"movupd %%xmm11, 240(%[v]); movupd %%xmm15, 256(%[v])\n"
		"mov %%r12, 64(%[v]); mov %%r15, 72(%[v])\n"
		"mov %%rbp, %%rsp; pop %%rbp\n"
		:
		: [v] "b"(&v), [fn] "m"(launch)
		: "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r15", "xmm0",
		  "xmm3", "xmm7", "xmm8", "xmm11", "xmm15", "memory", "cc");
	MUST(v.r12_after == v.r12 && v.r15_after == v.r15);
	MUST(!memcmp(v.in, v.out, sizeof(v.in)));
	nap(20);
}

static void allocate(void)
{
	static __thread void *blocks[64];
	static __thread uint64_t x = 1;

	for (int i = 0; i < 20; i++) {
		size_t size;

		x = x * 6364136223846793005 + 1442695040888963407;
		size = x >> 40 & 31 ? 16 + (x >> 45) % 3000 : 200000 + (x >> 45) % 400000;
		free(blocks[x >> 58]);
		blocks[x >> 58] = malloc(size);
		MUST(blocks[x >> 58]);
		memset(blocks[x >> 58], 1, size);
	}
}

static void do_malloc(unsigned k)
{
	allocate();
	do_call(k);
}

static void on_usr(int sig)
{
	int saved = errno;

	call(1);
	errno = saved;
}

static void on_usr_deep(int sig)
{
	volatile char own[1 << 20];

	own[0] = own[sizeof(own) - 1] = 1;
	on_usr(sig);
	MUST(own[0]);
}

static void do_handler(unsigned k)
{
	static _Atomic pthread_t caller;

	if (k == 1) {
		caller = pthread_self();
		allocate();
	} else {
		nap(1000);
		if (k == 2 && caller)
			pthread_kill(caller, SIGUSR1);
	}
}

static void do_unload(unsigned k)
{
	struct sched_param first = {1};
	cpu_set_t one;

	if (k == 1) {
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		sched_setaffinity(0, sizeof(one), &one);
		sched_setscheduler(0, SCHED_FIFO, &first);
		call(k);
		MUST(!dlclose(lib));
		nap(500);
		lib = dlopen("libcuda.so.1", RTLD_NOW);
		MUST(lib);
		launch = (__typeof__(launch))dlsym(lib, "cuLaunchKernel");
	}
	nap(50000);
}

/* In a child, other threads of the parent may have held locks of malloc and the loader. */
static void do_fork(unsigned k)
{
	pid_t pid = k == 1 ? fork() : 0;
	int status;
	void *other;

	if (k == 1 && !pid) {
		alarm(20);
		free(malloc(100000));
		other = dlopen("libutil.so.1", RTLD_NOW);
		_exit(other && !dlclose(other) ? 7 : 8);
	}
	MUST(pid >= 0);
	while (pid && waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	MUST(!pid || (WIFEXITED(status) && WEXITSTATUS(status) == 7));
	do_call(k);
}

static void do_dlopen(unsigned k)
{
	static const char *const libs[] = {"libutil.so.1", "libanl.so.1", "librt.so.1",
					   "libBrokenLocale.so.1"};
	void *other = dlopen(libs[calls[k] % 4], RTLD_NOW);

	MUST(other && !dlclose(other));
	do_call(k);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Somebody has stopped the process meanwhile, which ends system calls with EINTR: a daemon that
 * traces all programs may, --probe=inject -p must not. */
static bool was_stopped(void)
{
	if (errno != EINTR)
		return false;
	nap(20000); /* the handler runs in any thread */
	return continued;
}

static void do_wait(unsigned k)
{
	static __thread int epoll = -1;
	struct timespec t = {.tv_nsec = 30000000};
	struct epoll_event ev;
	double begin = now();
	sigset_t usr;

	if (k == 1) {
		do_call(k);
		return;
	}
	if (epoll < 0)
		epoll = epoll_create1(EPOLL_CLOEXEC);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	errno = 0;
	MUST(!epoll_wait(epoll, &ev, 1, 30) || was_stopped());
	MUST(!poll(NULL, 0, 30) || was_stopped());
	MUST(!nanosleep(&t, NULL) || was_stopped());
	MUST((sigtimedwait(&usr, NULL, &t) < 0 && errno == EAGAIN) || was_stopped());
	MUST(now() - begin > 0.119 || continued);
	call(k);
}

static void do_idle(unsigned k)
{
	for (int i = 0; i < 6000 && !stop; i++)
		nap(10000);
	call(k);
}

/* A filter that answers so to a call whose third argument has all these bits. */
static void filter(unsigned nr, unsigned bits, unsigned answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};

	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	     !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
}

/* Each thread sandboxes itself after three seconds, and calls at once. */
static void do_sandboxed(unsigned k)
{
	static __thread bool is_done;

	for (int i = 0; i < 300 && !is_done && !stop; i++)
		nap(10000);
	if (!is_done)
		filter(SYS_openat, 0, SECCOMP_RET_KILL_PROCESS);
	is_done = true;
	do_call(k);
}

static const struct kind {
	const char *name;
	void (*fn)(unsigned k);
	size_t stack;
} kinds[] = {{"call", do_call, 0},	   {"registers", do_registers, 0},
	     {"malloc", do_malloc, 0},	   {"fork", do_fork, 0},
	     {"dlopen", do_dlopen, 0},	   {"signal", do_call, 0},
	     {"small", do_call, 16 << 10}, {"wait", do_wait, 0},
	     {"idle", do_idle, 0},	   {"docker", do_call, 0},
	     {"filters", do_call, 0},	   {"kills", do_call, 0},
	     {"refuses", do_call, 0},	   {"one", do_call, 0},
	     {"only", do_call, 0},	   {"sandboxed", do_sandboxed, 0},
	     {"handler", do_handler, 0},   {"deep", do_handler, 0},
	     {"headless", do_call, 0},	   {"unload", do_unload, 0}};
static const struct kind *kind;

/* late_filters.c */
int docker_filter(void);
int only_filter(char **names);

/* Threads inherit it. */
static void filter_all(const char *name, char **names)
{
	if (!strcmp(name, "only"))
		MUST(!only_filter(names));
	if (!strcmp(name, "docker"))
		MUST(!docker_filter());
	if (!strcmp(name, "filters")) {
		filter(SYS_ptrace, 0, SECCOMP_RET_KILL_PROCESS);
		filter(SYS_openat, 0, SECCOMP_RET_LOG);
	}
	if (!strcmp(name, "kills"))
		filter(SYS_openat, 0, SECCOMP_RET_KILL_PROCESS);
	if (!strcmp(name, "refuses"))
		filter(SYS_mmap, PROT_EXEC, SECCOMP_RET_ERRNO | EACCES);
}

static void *work(void *arg)
{
	if (arg == (void *)THREADS && !strcmp(kind->name, "one"))
		filter(SYS_openat, 0, SECCOMP_RET_KILL_PROCESS);
	while (!stop)
		kind->fn((unsigned)(uintptr_t)arg);
	return NULL;
}

static void on_prof(int sig)
{
}

static void on_cont(int sig)
{
	continued = 1;
}

static void on_term(int sig)
{
	stop = 1;
}

static void signals(void)
{
	struct sigaction prof = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 500}, {0, 500}};

	MUST(!sigaction(SIGPROF, &prof, NULL) && !setitimer(ITIMER_PROF, &often, NULL));
}

int main(int argc, char **argv)
{
	uint64_t (*launches)(void), sum = 0;
	pthread_t threads[THREADS + 1];
	pthread_attr_t attr;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (argc > 1 && !strcmp(kinds[i].name, argv[1]))
			kind = &kinds[i];
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	MUST(lib && kind);
	launch = (__typeof__(launch))dlsym(lib, "cuLaunchKernel");
	launches = (uint64_t(*)(void))dlsym(lib, "late_launches");
	MUST(launch && launches);
	signal(SIGTERM, on_term);
	signal(SIGCONT, on_cont);
	signal(SIGUSR1, strcmp(kind->name, "deep") != 0 ? on_usr : on_usr_deep);
	filter_all(kind->name, argv + 2);
	pthread_attr_init(&attr);
	if (kind->stack)
		MUST(!pthread_attr_setstacksize(&attr, kind->stack));
	for (uintptr_t k = 1; k <= THREADS; k++)
		MUST(!pthread_create(&threads[k], &attr, work, (void *)k));
	if (!strcmp(kind->name, "signal"))
		signals();
	puts("ready");
	fflush(stdout);
	if (!strcmp(kind->name, "headless"))
		pthread_exit(NULL);
	for (unsigned k = 1; k <= THREADS; k++) {
		pthread_join(threads[k], NULL);
		printf("%u %u\n", k, calls[k]);
		sum += calls[k];
	}
	/* A library that is loaded again counts anew. */
	MUST(kind->fn == do_unload || launches() == sum);
	return 0;
}
