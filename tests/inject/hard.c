/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hard PART: difficult cases for a library between a program and its driver. Uses lib.c; exit
 * status 0 if everything was as without the library, and prints "SYMBOL CALLS" for each function.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct big {
	uint64_t v[8];
};
struct pair {
	double a, b;
};

static int (*init)(unsigned), (*nop)(void), (*set_errno)(int), (*call)(void (*)(void *), void *);
static long nops, calls;

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "hard: line %d: %s\n", __LINE__, #x);                      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void do_nop(void)
{
	__atomic_fetch_add(&nops, 1, __ATOMIC_RELAXED);
	MUST(!nop());
}

static void do_call(void (*fn)(void *), void *arg)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	MUST(!call(fn, arg));
}

static void *sym(const char *name)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *p = lib ? dlsym(lib, name) : NULL;

	if (!p) {
		fprintf(stderr, "hard: %s\n", dlerror());
		exit(1);
	}
	return p;
}

static void report_counts(void)
{
	char text[200];
	int n = 0;

	if (nops)
		n += sprintf(text + n, "cuNop %ld\n", nops);
	if (calls)
		n += sprintf(text + n, "cuCall %ld\n", calls);
	MUST(write(1, text, n) == n);
}

static void args(void)
{
	int (*floats)(float, double, float, double, float, double, float, double, int, long, double,
		      float) = sym("cuFloats");
	int (*structs)(int, struct big, int, struct pair) = sym("cuStruct");
	int (*sixteen)(long, long, long, long, long, long, long, long, long, long, long, long, long,
		       long, long, long) = sym("cuSixteen");
	uint64_t (*wide)(uint64_t) = sym("cuWide");
	double (*half)(double) = sym("cuHalf");
	struct pair (*pair)(double) = sym("cuPair"), p;
	struct big s;

	for (unsigned i = 0; i < 8; i++)
		s.v[i] = 0x1111111111111111ull * (i + 1);
	/* Longer than the time after which times come from the processor's counter
	 * (inject/clock.c). */
	for (int i = 0; i < 300; i++) {
		if (i % 3 == 0)
			usleep(1000);
		MUST(!floats(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
		MUST(!structs(1, s, 2, (struct pair){0.5, 0.25}));
		MUST(!sixteen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
		MUST(wide(0x123456789abcdef0) == 0x123456789abcdef0);
		MUST(half(3) == 1.5);
		p = pair(7);
		MUST(p.a == 7 && p.b == -7);
		errno = 77;
		MUST(set_errno(88) == 77);
		MUST(errno == 88);
	}
	printf("cuFloats 300\ncuStruct 300\ncuSixteen 300\ncuWide 300\ncuHalf 300\ncuPair 300\n"
	       "cuErrno 300\n");
}

static void on_alarm(int sig)
{
	int err = errno;

	do_nop();
	errno = err;
}

static void timer(unsigned us)
{
	struct itimerval t = {{0, us}, {0, us}};

	MUST(!setitimer(ITIMER_REAL, &t, NULL));
}

static void signals(int flags)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = flags};
	stack_t st = {.ss_size = 65536, .ss_sp = malloc(65536)};

	if (flags & SA_ONSTACK)
		MUST(!sigaltstack(&st, NULL));
	MUST(!sigaction(SIGALRM, &sa, NULL));
	timer(50);
	for (int i = 0; i < 400000; i++)
		do_nop();
	timer(0);
}

static sigjmp_buf out;

static void on_alarm_jump(int sig)
{
	siglongjmp(out, 1);
}

/* Jumps out of any place: a call, the code before and after it. */
static void jumps(void)
{
	struct sigaction sa = {.sa_handler = on_alarm_jump};
	volatile int left = 2000;

	MUST(!sigaction(SIGALRM, &sa, NULL));
	sigsetjmp(out, 1);
	if (left-- > 0) {
		struct itimerval t = {.it_value.tv_usec = 20 + left % 50};

		MUST(!setitimer(ITIMER_REAL, &t, NULL));
		for (;;)
			do_nop();
	}
	for (int i = 0; i < 1000; i++)
		do_nop();
}

static void *short_thread(void *arg)
{
	do_nop();
	do_nop();
	return NULL;
}

static void threads(void)
{
	pthread_t t[8];

	for (int i = 0; i < 1250; i++) {
		for (int k = 0; k < 8; k++)
			MUST(!pthread_create(&t[k], NULL, short_thread, NULL));
		for (int k = 0; k < 8; k++)
			pthread_join(t[k], NULL);
	}
}

static void *raw_exit(void *arg)
{
	do_nop();
	syscall(SYS_exit, 0);
	return NULL;
}

/* More threads than slots (CT_SHM_SLOTS), one after another, each ending without a return to libc:
 * its slot must be taken over. */
static void raw_threads(void)
{
	pthread_t t;

	for (int i = 0; i < 1100; i++) {
		MUST(!pthread_create(&t, NULL, raw_exit, NULL));
		MUST(!pthread_join(t, NULL));
	}
}

static pthread_barrier_t barrier;

static void *waits(void *arg)
{
	do_nop();
	pthread_barrier_wait(&barrier);
	do_nop();
	return NULL;
}

/* More threads at a time than slots (CT_SHM_SLOTS): calls without a slot are counted. */
#define CROWD 1068
static void crowd(void)
{
	pthread_t t[CROWD];

	pthread_barrier_init(&barrier, NULL, CROWD);
	for (int i = 0; i < CROWD; i++)
		MUST(!pthread_create(&t[i], NULL, waits, NULL));
	for (int i = 0; i < CROWD; i++)
		pthread_join(t[i], NULL);
}

static void wait_for(pid_t pid)
{
	int status;

	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fork_here(void *how)
{
	pid_t pid = how ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

	MUST(pid >= 0);
	if (pid) {
		wait_for(pid);
		return;
	}
	nops = calls = 0;
	for (int i = 0; i < 10; i++)
		do_nop();
}

/* In the middle of a call, through libc and without it; the child returns from the call. */
static void forks(void)
{
	pid_t self = getpid();

	do_nop();
	for (long how = 0; how < 2; how++) {
		do_call(fork_here, (void *)how);
		if (getpid() != self) {
			do_nop();
			report_counts();
			_exit(0);
		}
	}
}

static void leave_thread(void *how)
{
	if (how)
		pthread_exit(NULL);
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static void *leaver(void *arg)
{
	do_call(leave_thread, arg);
	return NULL;
}

static pthread_key_t key;

static void late(void *arg)
{
	do_nop();
	if (arg > (void *)1)
		pthread_setspecific(key, (char *)arg - 1);
}

static void *late_thread(void *arg)
{
	pthread_setspecific(key, (void *)3);
	do_nop();
	return NULL;
}

/* Threads that end in a call, and calls of a thread that is ending. */
static void ends(void)
{
	pthread_t t;

	pthread_key_create(&key, late);
	for (long i = 0; i < 20; i++) {
		MUST(!pthread_create(&t, NULL, i & 1 ? leaver : late_thread, (void *)(i & 2)));
		pthread_join(t, NULL);
	}
}

static ucontext_t home, other[2];

static void tight(void)
{
	do_nop();
}

static void switch_to(void *to)
{
	swapcontext(&other[0], to);
}

static void first(void)
{
	/* During a call it switches to the other one, which switches back during its own. */
	do_call(switch_to, &other[1]);
	do_nop();
}

static void second(void)
{
	do_nop();
	setcontext(&other[0]);
}

/* Stacks of the program's own, with nothing beyond them. */
static void stacks(void)
{
	size_t size = 65536;
	char *stack[2];

	for (int i = 0; i < 2; i++) {
		stack[i] = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(stack[i] != MAP_FAILED);
		MUST(!mprotect(stack[i] + 4096, size, PROT_READ | PROT_WRITE));
	}
	for (int i = 0; i < 64; i++) {
		getcontext(&other[0]);
		other[0].uc_stack.ss_sp = stack[0] + 4096;
		other[0].uc_stack.ss_size = size - i * 8;
		other[0].uc_link = &home;
		makecontext(&other[0], tight, 0);
		MUST(!swapcontext(&home, &other[0]));
	}
	for (int i = 0; i < 2; i++) {
		getcontext(&other[i]);
		other[i].uc_stack.ss_sp = stack[i] + 4096;
		other[i].uc_stack.ss_size = size;
		other[i].uc_link = &home;
		makecontext(&other[i], i ? second : first, 0);
	}
	MUST(!swapcontext(&home, &other[0]));
	do_nop();
}

static void deep(void *left)
{
	if (left)
		do_call(deep, (char *)left - 1);
	else
		do_nop();
}

/* Its tracer ends, in one of several ways; all changes must be undone. */
static void alone(int sig)
{
	int (*is_direct)(void) = sym("cuIsDirect");
	char twice[64];

	MUST(!is_direct());
	/* A tracer forwards the first signal, and ends the trace at the second, unless its own
	 * command sends them. */
	signal(SIGINT, SIG_IGN);
	snprintf(twice, sizeof(twice), "kill -INT %d; sleep 0.3; kill -INT %d", getppid(),
		 getppid());
	MUST(!(sig == SIGINT ? system(twice) : kill(getppid(), sig)));
	for (int i = 0; i < 6000 && !is_direct(); i++) {
		do_nop();
		usleep(10000);
	}
	MUST(is_direct());
	do_nop();
}

static unsigned long long clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Prints "BEFORE AFTER" of each call, with or without pauses between them. */
static void times(void)
{
	for (int i = 0; i < 3000; i++) {
		unsigned long long before = clock_ns();

		do_nop();
		printf("%llu %llu\n", before, clock_ns());
		if (i % 3 == 0)
			usleep(i % 100 * 50);
	}
}

/* Repeats: a pause, then a few milliseconds with this number of calls in each. */
static void bursts(int cnt, int ms, int calls)
{
	for (int burst = 0; burst < cnt; burst++) {
		unsigned long long began;

		usleep(200000 + burst * 7000);
		began = clock_ns();
		for (int i = 0; i < ms; i++) {
			while (clock_ns() - began < i * 1000000ull)
				;
			for (int k = 0; k < calls; k++)
				do_nop();
		}
	}
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	init = sym("cuInit");
	nop = sym("cuNop");
	call = sym("cuCall");
	set_errno = sym("cuErrno");
	MUST(!init(0));
	if (!strcmp(part, "args"))
		args();
	else if (!strcmp(part, "signals"))
		signals(0);
	else if (!strcmp(part, "altstack"))
		signals(SA_ONSTACK);
	else if (!strcmp(part, "jumps"))
		jumps();
	else if (!strcmp(part, "threads"))
		threads();
	else if (!strcmp(part, "raw_threads"))
		raw_threads();
	else if (!strcmp(part, "crowd"))
		crowd();
	else if (!strcmp(part, "forks"))
		forks();
	else if (!strcmp(part, "ends"))
		ends();
	else if (!strcmp(part, "stacks"))
		stacks();
	else if (!strcmp(part, "deep"))
		deep((void *)20);
	else if (!strcmp(part, "times"))
		times();
	else if (!strcmp(part, "bursts"))
		bursts(8, 45, 250);
	else if (!strcmp(part, "short bursts"))
		bursts(24, 10, 400);
	else if (!strcmp(part, "killed"))
		alone(SIGKILL);
	else if (!strcmp(part, "interrupted"))
		alone(SIGINT);
	else
		MUST(!"known");
	printf("cuInit 1\n");
	fflush(stdout);
	report_counts();
	return 0;
}
