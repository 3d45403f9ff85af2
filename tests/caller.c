/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * caller: a target that runs commands, one per line of stdin, and answers each with one line on
 * stdout.
 *
 *   open PATH     dlopen(); later commands call functions of this file
 *   init          cuInit() and a current context
 *   version N     N calls of cuDriverGetVersion; "VERSION" of the last
 *   stacked N     N calls with an argument on the stack, where each finds another one; "N" that
 *                 had theirs
 *   alloc N       N times cuMemAlloc_v2 and cuMemFree_v2; "N" that went well
 *   fail N        N calls of cuMemFree_v2 with an address that is none; "N" that failed
 *   threads T N   the same in T threads at once; "T*N" that went well
 *   turns T N     the same, with all threads in the same round
 *   child N       the same in a child, waited for; "N" that went well
 *   memfd PATH    opens a copy in memory, which is named libcuda.so.1
 *   leave         the main thread ends, another one runs the following commands
 *   dumpable N    prctl(PR_SET_DUMPABLE, N)
 *   filter        sets a seccomp filter that allows everything
 *   exec PATH     executes that program with --tokens 1; sends no answer
 *   sleep US      a thread enters cuFakeSleep(US); answers when it has begun
 *   join          waits for that thread; cuFakeSleep's result
 *   exit STATUS   ends at once; the end of stdin ends it too
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*fn_t)();

static void *lib, *ctx;
static pthread_barrier_t round;
static int in_turns;
static pthread_t sleeper_thread;

static fn_t fn(const char *sym)
{
	fn_t p = lib ? (fn_t)dlsym(lib, sym) : NULL;

	if (!p) {
		fprintf(stderr, "caller: no %s\n", sym);
		exit(1);
	}
	return p;
}

static int init(void)
{
	int r = fn("cuInit")(0);

	if (!r)
		r = fn("cuDevicePrimaryCtxRetain")(&ctx, 0);
	return r ? r : fn("cuCtxSetCurrent")(ctx);
}

/* Overwrites the stack, so that the next call does not find values of the last one. */
static __attribute__((noinline)) void scribble(void)
{
	volatile char stack[2048];

	for (unsigned i = 0; i < sizeof(stack); i++)
		stack[i] = 0x55;
}

static long stacked(long cnt)
{
	fn_t f = fn("cuStreamGetCaptureInfo_v3");
	uint64_t deps[64];
	unsigned status;
	long well = 0;

	for (long i = 0; i < cnt; i++) {
		uint64_t *on_stack = &deps[i % 64];

		*on_stack = 1;
		scribble();
		well += !f(NULL, &status, NULL, NULL, NULL, NULL, on_stack) && !*on_stack;
	}
	return well;
}

static int version(long cnt)
{
	fn_t f = fn("cuDriverGetVersion");
	int v = -1;

	while (cnt-- > 0)
		f(&v);
	return v;
}

static long alloc(long cnt)
{
	fn_t get = fn("cuMemAlloc_v2"), put = fn("cuMemFree_v2");
	long good = 0;

	while (cnt-- > 0) {
		uint64_t p = 0;

		good += !get(&p, (size_t)4096) && p && !put(p);
	}
	return good;
}

static long fail(long cnt)
{
	fn_t put = fn("cuMemFree_v2");
	long bad = 0;

	while (cnt-- > 0)
		bad += put((uint64_t)0x123) != 0;
	return bad;
}

static void *work(void *arg)
{
	fn("cuCtxSetCurrent")(ctx);
	long good = 0;

	if (!in_turns)
		return (void *)alloc((long)arg);
	for (long i = 0; i < (long)arg; i++) {
		pthread_barrier_wait(&round);
		good += alloc(1);
	}
	return (void *)good;
}

static long threads(long cnt, long rounds, int turns)
{
	pthread_t t[64];
	long good = 0;

	if (cnt > 64)
		cnt = 64;
	in_turns = turns;
	pthread_barrier_init(&round, NULL, cnt);
	for (long i = 0; i < cnt; i++)
		if (pthread_create(&t[i], NULL, work, (void *)rounds))
			exit(1);
	for (long i = 0; i < cnt; i++) {
		void *n;

		pthread_join(t[i], &n);
		good += (long)n;
	}
	return good;
}

static int child(long cnt)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid)
		_exit(init() ? 255 : alloc(cnt));
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *sleeper(void *us)
{
	return (void *)(long)fn("cuFakeSleep")((unsigned)(long)us);
}

static int start_sleeper(long us)
{
	struct timespec ts = {.tv_nsec = 50000000};

	if (pthread_create(&sleeper_thread, NULL, sleeper, (void *)us))
		exit(1);
	nanosleep(&ts, NULL);
	return 0;
}

static long join(void)
{
	void *r = NULL;

	pthread_join(sleeper_thread, &r);
	return (long)r;
}

static int memfd(const char *path)
{
	int from = open(path, O_RDONLY), to = memfd_create("libcuda.so.1", 0);
	char buf[65536], copy[32];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		if (write(to, buf, n) != n)
			return 0;
	snprintf(copy, sizeof(copy), "/proc/self/fd/%d", to);
	lib = n ? NULL : dlopen(copy, RTLD_NOW);
	return lib != NULL;
}

static int filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog all = {1, &allow};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

static void *serve(void *arg);

static void leave(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, serve, serve))
		exit(1);
	pthread_setname_np(other, "left");
	pthread_exit(NULL);
}

static long run(const char *verb, char *rest)
{
	char *end;
	long n = strtol(rest, &end, 0);

	if (!strcmp(verb, "open")) {
		lib = dlopen(rest, RTLD_NOW);
		if (!lib)
			fprintf(stderr, "caller: %s\n", dlerror());
		return lib != NULL;
	}
	if (!strcmp(verb, "init"))
		return init();
	if (!strcmp(verb, "version"))
		return version(n);
	if (!strcmp(verb, "alloc"))
		return alloc(n);
	if (!strcmp(verb, "fail"))
		return fail(n);
	if (!strcmp(verb, "stacked"))
		return stacked(n);
	if (!strcmp(verb, "threads"))
		return threads(n, strtol(end, NULL, 0), 0);
	if (!strcmp(verb, "turns"))
		return threads(n, strtol(end, NULL, 0), 1);
	if (!strcmp(verb, "child"))
		return child(n);
	if (!strcmp(verb, "memfd"))
		return memfd(rest);
	if (!strcmp(verb, "leave"))
		leave();
	if (!strcmp(verb, "dumpable"))
		return prctl(PR_SET_DUMPABLE, n);
	if (!strcmp(verb, "filter"))
		return filter();
	if (!strcmp(verb, "exec"))
		execl(rest, rest, "--tokens", "1", "--quiet", NULL);
	if (!strcmp(verb, "sleep"))
		return start_sleeper(n);
	if (!strcmp(verb, "join"))
		return join();
	if (!strcmp(verb, "exit"))
		_exit(n);
	fprintf(stderr, "caller: what is %s?\n", verb);
	exit(1);
}

/* arg: not NULL in the thread that answers for the main one. */
static void *serve(void *arg)
{
	char line[4096];

	if (arg && ctx)
		fn("cuCtxSetCurrent")(ctx);
	if (arg)
		puts("0");
	while (fgets(line, sizeof(line), stdin)) {
		char *rest;

		line[strcspn(line, "\n")] = 0;
		rest = line + strcspn(line, " ");
		if (*rest)
			*rest++ = 0;
		printf("%ld\n", run(line, rest));
	}
	exit(0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	serve(NULL);
}
