/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * calls [PART [ARGUMENT]...]: 60 calls of cuDeviceGetCount, ten of them in another thread, in a
 * program with the properties of PART. Prints its findings. Built with sanitizers, too; with -DOWN
 * it has its own functions with libc's names. Exit status 0, or the line of the failure.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			dprintf(2, "line %d: %s\n", __LINE__, #x);                                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#ifdef OWN
/* Each looks up libc's function at its first call, as wrappers do. */
#define NEXT(type, name, ...)                                                                      \
	static type (*next_##name)(__VA_ARGS__);                                                   \
	if (!next_##name)                                                                          \
	next_##name = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static volatile int wrapped;

int strcmp(const char *a, const char *b)
{
	NEXT(int, strcmp, const char *, const char *);
	wrapped++;
	return next_strcmp(a, b);
}

int strncmp(const char *a, const char *b, size_t n)
{
	NEXT(int, strncmp, const char *, const char *, size_t);
	wrapped++;
	return next_strncmp(a, b, n);
}

char *strrchr(const char *s, int c)
{
	NEXT(char *, strrchr, const char *, int);
	wrapped++;
	return next_strrchr(s, c);
}

char *getenv(const char *name)
{
	NEXT(char *, getenv, const char *);
	wrapped++;
	return next_getenv(name);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	NEXT(int, clock_gettime, clockid_t, struct timespec *);
	wrapped++;
	return next_clock_gettime(clock, ts);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	NEXT(void *, mmap, void *, size_t, int, int, int, off_t);
	wrapped++;
	return next_mmap(at, size, prot, flags, fd, off);
}

/* Libc's own calls do not come here, and no other calls may: these are the program's functions. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr)
{
	abort();
}
int dl_iterate_phdr(int (*fn)(void *, size_t, void *), void *arg)
{
	abort();
}
int socket(int domain, int type, int protocol)
{
	abort();
}
char *realpath(const char *path, char *to)
{
	abort();
}
#endif

static int (*init)(unsigned), (*count)(int *);
static int made;

static void call(int n)
{
	int devices = 0;

	for (int i = 0; i < n; i++)
		MUST(!count(&devices) && devices == 2);
	__atomic_fetch_add(&made, n, __ATOMIC_RELAXED);
}

static void *thread(void *arg)
{
	call(10);
	return arg;
}

static void in_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	MUST(!pthread_create(&t, &attr, thread, NULL) && !pthread_join(t, NULL));
}

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	MUST(lib);
	init = (int (*)(unsigned))dlsym(lib, "cuInit");
	count = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	MUST(init && count && !init(0));
}

/* --- seccomp: any system call that this program does not make ends it --- */

#define KILL(name)                                                                                 \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	KILL(process_vm_readv),
	KILL(tgkill),
	KILL(socket),
	KILL(connect),
	KILL(nanosleep),
	KILL(sigaltstack),
	KILL(prctl),
	KILL(openat),
	KILL(ioctl),
	KILL(read),
	KILL(close),
	KILL(mremap),
	KILL(munlock),
	KILL(prlimit64),
	KILL(sendto),
	KILL(recvmsg),
	KILL(readlinkat),
	KILL(faccessat),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

/* Invisible to any library. */
static long raw(long nr, long a, long b, const void *c)
{
#ifdef __x86_64__
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
#else
	return syscall(nr, a, b, c);
#endif
}

static void shut(const char *how)
{
	MUST(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (!strcmp(how, "prctl"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	else if (!strcmp(how, "seccomp"))
		MUST(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
	else
		MUST(!raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

static void sandbox(const char *how)
{
	const struct timespec until_seen = {3, 0};
	int (*get)(int, char **) = NULL;
	char *text;

	load();
	call(20);
	shut(how);
	/* The tracer checks every second. */
	if (!strcmp(how, "raw"))
		clock_nanosleep(CLOCK_MONOTONIC, 0, &until_seen, NULL);
	/* Its readable data is not on a stack. */
	get = (int (*)(int, char **))dlsym(RTLD_DEFAULT, "cuGetErrorName");
	if (get)
		MUST(!get(1, &text));
	call(30);
	in_thread();
}

/* After this each system call, or each read of the time stamp counter, ends the program. */
static void forbid(const char *how)
{
	static char blocks;

	load();
	call(20);
	if (!strcmp(how, "strict"))
		MUST(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	else if (!strcmp(how, "strict-by-number"))
		MUST(!syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	else if (!strcmp(how, "tsc"))
		MUST(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	else
		MUST(!prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &blocks));
	blocks = SYSCALL_DISPATCH_FILTER_BLOCK;
	call(500);
	blocks = SYSCALL_DISPATCH_FILTER_ALLOW;
	MUST(write(1, "520 calls\n", 10) == 10);
	raw(SYS_exit, 0, 0, NULL);
}

/* A program that is started with the filter also makes its loader's system calls. */
static void launch(char **argv)
{
	static struct sock_filter kill[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		KILL(process_vm_readv),
		KILL(socket),
		KILL(mremap),
		KILL(tgkill),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	program = (struct sock_fprog){sizeof(kill) / sizeof(*kill), kill};
	shut("prctl");
	execv(argv[0], argv);
	MUST(0);
}

/* --- memory --- */

static long locked_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	long kb = -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %ld", &kb);
	MUST(f);
	fclose(f);
	return kb;
}

static void lock(long mb)
{
	struct rlimit limit = {mb << 20, mb << 20};

	mallopt(M_ARENA_MAX, 1);
	/* Users usually have no higher limit; not all may set it. */
	setrlimit(RLIMIT_MEMLOCK, &limit);
	load();
	call(25);
	MUST(!mlockall(MCL_CURRENT | MCL_FUTURE));
	call(25);
	MUST(locked_kb() < mb << 10);
	in_thread();
	MUST(locked_kb() < mb << 10);
}

/* --- first calls of a thread where malloc() must not be called --- */

static volatile int stop, handled;

static void handler(int sig)
{
	call(1);
	made--;
	handled = 1;
}

static void *allocates(void *arg)
{
	while (arg ? !stop : !handled) {
		void *p[32];

		for (int i = 0; i < 32; i++)
			p[i] = malloc(1000 + (arg ? i * 70000 : i * 37));
		for (int i = 0; i < 32; i++)
			free(p[i]);
	}
	return NULL;
}

static void signals(void)
{
	struct sigaction sa = {.sa_handler = handler};

	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 300; i++) {
		struct timespec end;
		pthread_t t;

		handled = 0;
		MUST(!pthread_create(&t, NULL, allocates, NULL));
		usleep(i % 7 * 50);
		MUST(!pthread_kill(t, SIGUSR1));
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += 20;
		MUST(!pthread_timedjoin_np(t, NULL, &end));
	}
}

static void *forks(void *arg)
{
	free(malloc(10));
	for (int i = 0; i < 10; i++) {
		pid_t child = _Fork();
		int status;

		if (!child) {
			alarm(20);
			call(1);
			_exit(0);
		}
		MUST(waitpid(child, &status, 0) == child && !status);
	}
	return arg;
}

static void forked(void)
{
	pthread_t busy[2], t;

	for (int i = 0; i < 2; i++)
		MUST(!pthread_create(&busy[i], NULL, allocates, (void *)&stop));
	MUST(!pthread_create(&t, NULL, forks, NULL) && !pthread_join(t, NULL));
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(busy[i], NULL);
}

/* --- libraries --- */

/* A name ends at the end of a page. A read of the next page waits forever, because nothing serves
 * the userfaultfd. */
static void monitored(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*get)(void **, void *, const char *) = dlsym(lib, "cuModuleGetFunction");
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register next = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	long page = sysconf(_SC_PAGESIZE);
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	void *function;
	char *at;

	MUST(get);
	at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(at != MAP_FAILED);
	next.range.start = (unsigned long)at + page;
	next.range.len = page;
	/* Needs privileges. */
	if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api))
		MUST(!ioctl(fd, UFFDIO_REGISTER, &next));
	strcpy(at + page - 5, "name");
	alarm(10);
	MUST(get(&function, NULL, at + page - 5));
	alarm(0);
}

static void use(void *lib)
{
	MUST(lib);
	init = (int (*)(unsigned))dlsym(lib, "cuInit");
	count = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	MUST(init && count && !init(0));
	call(25);
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";

	if (!strcmp(part, "sandbox")) {
		sandbox(argv[2]);
	} else if (!strcmp(part, "forbid")) {
		forbid(argv[2]);
	} else if (!strcmp(part, "launch")) {
		launch(argv + 2);
	} else if (!strcmp(part, "mlock")) {
		lock(atol(argv[2]));
	} else if (!strcmp(part, "two")) {
		use(dlopen(argv[2], RTLD_NOW));
		use(dlopen(argv[3], RTLD_NOW));
		in_thread();
	} else if (!strcmp(part, "namespaces")) {
		use(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW));
		use(dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW));
		in_thread();
	} else {
		load();
		call(50);
		if (!strcmp(part, "signals"))
			signals();
		if (!strcmp(part, "forked"))
			forked();
		if (!strcmp(part, "monitored"))
			monitored();
		in_thread();
	}
#ifdef OWN
	MUST(wrapped);
#endif
	printf("%d calls\n", made);
	/* From a limiter that is preloaded. */
	printf("limit %s\n", dlsym(RTLD_DEFAULT, "limiter_name") ? "on" : "off");
	return 0;
}
