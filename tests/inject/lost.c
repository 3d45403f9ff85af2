/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that the in-process library cannot record, or no longer.
 *
 *   lost KIND [STACK]
 *
 * Makes 2 calls, and then 100 calls in a child or, with a KIND that begins with "self-", itself.
 * The child of "program-network" has executed this program again; that of "outlives" makes them
 * when its parent has ended. Of "daemon", the child forks eight times more, and only the last one
 * continues. Of "loader", a thread of the parent has the loader's lock, and the child looks up a
 * function. Of "stopped" and "self-network", the tracer stands still. Prints how many milliseconds
 * they took. STACK: bytes of stack that the child's calls have.
 *
 *   lost crowd CHILDREN
 *
 * Makes 1 call, and 1 in each of 16 threads of each child.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 100

int cuInit(unsigned flags);
int cuDeviceGetCount(int *cnt);

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	_exit(3);
}

static void calls(void)
{
	int n;

	for (int i = 0; i < CALLS; i++)
		cuDeviceGetCount(&n);
}

static long raw(long nr, long a, long b, long c)
{
#ifdef __x86_64__
	register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return nr;
#else
	return syscall(nr, a, b, c, 0, 0);
#endif
}

static void filter(unsigned refused)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, refused),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = {4, f};

	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, 2, &p), "seccomp");
}

static void limit(int what, rlim_t max)
{
	struct rlimit l = {max, max};

	must(!setrlimit(what, &l), "setrlimit");
}

static rlim_t used(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages = 0;

	must(f && fscanf(f, "%ld", &pages) == 1, "statm");
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static void on_alarm(int sig)
{
}

static void become(const char *kind)
{
	if (strstr(kind, "descriptors")) {
		limit(RLIMIT_NOFILE, 64);
		while (open("/dev/null", O_RDONLY) >= 0)
			;
	} else if (strstr(kind, "memory")) {
		limit(RLIMIT_AS, used());
	} else if (strstr(kind, "timer")) {
		const struct itimerval every = {{0, 50000}, {0, 50000}};
		struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

		sigaction(SIGALRM, &a, NULL);
		setitimer(ITIMER_REAL, &every, NULL);
	} else if (strstr(kind, "filter")) {
		filter(SECCOMP_RET_ERRNO | EPERM);
	} else if (strstr(kind, "tsc-syscall")) {
		must(!syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0), "PR_SET_TSC");
	} else if (strstr(kind, "tsc-raw")) {
		must(!raw(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0), "PR_SET_TSC");
	} else if (strstr(kind, "tsc")) {
		must(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0), "PR_SET_TSC");
	}
}

static char *stack;
static size_t left;

static void *on_small_stack(void *arg)
{
	char here;
	volatile char *used = __builtin_alloca(&here - stack - left);

	used[0] = 1;
	calls();
	return arg;
}

static void small_stack(void)
{
	const size_t size = 128 << 10;
	char *m =
		mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	must(m != MAP_FAILED && !mprotect(m, 4096, PROT_NONE), "mmap");
	stack = m + 4096;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, size);
	must(!pthread_create(&t, &attr, on_small_stack, NULL), "pthread_create");
	pthread_join(t, NULL);
}

static volatile bool has_lock, gives_back;

static int in_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	has_lock = true;
	while (!gives_back)
		usleep(1000);
	return 1;
}

static void *take_lock(void *arg)
{
	dl_iterate_phdr(in_loader, NULL);
	return NULL;
}

static int child(const char *kind)
{
	bool outlives = !strcmp(kind, "outlives") || !strcmp(kind, "daemon");
	int status = 0;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (!pid) {
		if (!strncmp(kind, "program-", 8))
			execl("/proc/self/exe", "lost", "calls", NULL);
		become(kind);
		for (int i = 0; i < 8 && !strcmp(kind, "daemon"); i++)
			if (fork())
				_exit(0);
		if (outlives)
			usleep(500000);
		if (!strcmp(kind, "loader")) {
			alarm(5);
			cuInit(0);
			must(dlsym(RTLD_DEFAULT, "cuInit") != NULL, "dlsym");
		}
		if (left)
			small_stack();
		else
			calls();
		_exit(0);
	}
	if (outlives)
		return 0;
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
}

static long now_ms(void)
{
	struct timespec ts;

	must(!syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts), "clock_gettime");
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#define THREADS 16

static void *one_call(void *arg)
{
	int n;

	cuDeviceGetCount(&n);
	return arg;
}

static int crowd(int children)
{
	pthread_t of[THREADS];
	int status, bad = 0;

	for (int i = 0; i < children; i++) {
		if (fork())
			continue;
		for (int k = 0; k < THREADS; k++)
			must(!pthread_create(&of[k], NULL, one_call, NULL), "thread");
		for (int k = 0; k < THREADS; k++)
			pthread_join(of[k], NULL);
		_exit(0);
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}

int main(int argc, char **argv)
{
	const char *kind = argv[1];
	pid_t tracer = getppid();
	int n, status = 0;
	pthread_t holder;
	bool stops;
	long begin;

	cuInit(0);
	if (!strcmp(kind, "calls")) {
		calls();
		return 0;
	}
	cuDeviceGetCount(&n);
	if (!strcmp(kind, "crowd"))
		return crowd(atoi(argv[2]));
	left = argc > 2 ? atoi(argv[2]) : 0;
	if (strstr(kind, "network"))
		must(!unshare(CLONE_NEWNET) || !unshare(CLONE_NEWNET | CLONE_NEWUSER), "unshare");
	stops = (!strncmp(kind, "stopped", 7) || !strcmp(kind, "self-network")) &&
		getenv("LD_PRELOAD");
	if (stops)
		kill(tracer, SIGSTOP);
	/* Long enough for it to be taken for dead. */
	if (stops && !strcmp(kind, "self-network"))
		usleep(4000000);
	if (!strcmp(kind, "loader"))
		must(!pthread_create(&holder, NULL, take_lock, NULL), "pthread_create");
	while (!strcmp(kind, "loader") && !has_lock)
		usleep(1000);
	begin = now_ms();
	if (!strncmp(kind, "self-", 5)) {
		become(kind);
		calls();
	} else {
		status = child(kind);
	}
	gives_back = true;
	n = now_ms() - begin;
	if (stops)
		kill(tracer, SIGCONT);
	printf("%d ms\n", n);
	return status;
}
