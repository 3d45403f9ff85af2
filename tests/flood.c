/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * flood WHAT N LIBRARY...: fills the tables of a tracer by calls of the library (tests/liar.c).
 * Waits for a line on stdin before it begins and before it ends; says "ready", and "done" between.
 *
 *   names      N lookups of kernels with names of 1000 bytes
 *   handles    N launches of kernels that were not looked up, each handle with a name
 *   ranges     N allocations that are not freed
 *   captures   N graph captures that are not ended
 *   threads    N threads, one after the other, with a call each
 *   alive      N threads at the same time, with a call each, that do not end
 *   processes  the same with N processes
 *   short      N processes, one after the other, with a call each
 *   own-names  N threads, one after the other, that set their names before and after a call
 *   driver     like alive, with an ioctl on the last file instead
 *   libraries  maps the libraries, with a call each
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*fn_t)();

static void *lib;
static int (*sync_fn)();

static fn_t fn(const char *symbol)
{
	fn_t f = (fn_t)dlsym(lib, symbol);

	if (!f) {
		fprintf(stderr, "flood: no %s\n", symbol);
		exit(1);
	}
	return f;
}

#define NAME_SZ 1001

static void name(char *s, long i)
{
	memset(s, 'n', NAME_SZ - 1);
	s[NAME_SZ - 1] = 0;
	/* Unique to this process. */
	s[sprintf(s, "f%d_%07ld", getpid(), i)] = '_';
}

/* The target of a handle, as in the driver. */
struct kernel {
	uint64_t what;
	const char *name;
};

static struct kernel *kernel(long i)
{
	static struct kernel all[1 << 17];

	all[i % (1 << 17)].name = "kernel";
	return &all[i % (1 << 17)];
}

static void *one_call(void *arg)
{
	sync_fn();
	return arg;
}

static void *renamed(void *arg)
{
	char text[16];

	snprintf(text, sizeof(text), "a%ld", (long)arg);
	prctl(PR_SET_NAME, text);
	sync_fn();
	*text = 'b';
	prctl(PR_SET_NAME, text);
	return NULL;
}

static void in_process(void)
{
	pid_t pid = fork();

	if (!pid) {
		sync_fn();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void be_many(long cnt)
{
	long *called = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (long i = 0; i < cnt; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			fprintf(stderr, "flood: process %ld: %s\n", i, strerror(errno));
			exit(1);
		}
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			sync_fn();
			__sync_fetch_and_add(called, 1);
			for (;;)
				pause();
		}
		if (i % 128 == 0)
			usleep(5000);
	}
	while (__sync_fetch_and_add(called, 0) < cnt)
		usleep(1000);
}

static int device = -1;

static void *stay(void *arg)
{
	if (device >= 0)
		ioctl(device, 0x46d2, 0);
	else
		sync_fn();
	__sync_fetch_and_add((long *)arg, 1);
	pause();
	return NULL;
}

static void be_alive(long cnt)
{
	static long called;
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (long i = 0; i < cnt; i++) {
		int ret = pthread_create(&t, &attr, stay, &called);

		if (ret) {
			fprintf(stderr, "flood: thread %ld: %s\n", i, strerror(ret));
			exit(1);
		}
	}
	while (__sync_fetch_and_add(&called, 0) < cnt)
		usleep(1000);
}

static void once(const char *what, long i)
{
	char text[1024];
	uint64_t out;
	pthread_t t;

	switch (*what) {
	case 'n':
		name(text, i);
		fn("cuModuleGetFunction")(&out, 1ul, text);
		break;
	case 'h':
		fn("cuLaunchKernel")(kernel(i), 1, 1, 1, 1, 1, 1, 0, 0ul, NULL, NULL);
		break;
	case 'r':
		fn("cuMemAlloc_v2")(&out, 4096ul);
		break;
	case 'c':
		fn("cuStreamBeginCapture_v2")(0x1000ul + i, 0);
		break;
	case 's':
		in_process();
		break;
	case 't':
	case 'o':
		if (pthread_create(&t, NULL, *what == 't' ? one_call : renamed, (void *)i) == 0)
			pthread_join(t, NULL);
	}
}

static void wait_for_word(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static void say(const char *s)
{
	puts(s);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	long cnt;

	if (argc < 4 || !(lib = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL)))
		return 2;
	cnt = atol(argv[2]);
	sync_fn = fn("cuCtxSynchronize");
	sync_fn();
	say("ready");
	wait_for_word();
	if (*argv[1] == 'd')
		device = open(argv[--argc], O_RDONLY);
	if (strchr("ad", *argv[1])) {
		be_alive(cnt);
		cnt = 0;
	}
	if (*argv[1] == 'p') {
		be_many(cnt);
		cnt = 0;
	}
	for (long i = 0; i < cnt; i++) {
		once(argv[1], i);
		/* All share the ring buffer, which must not be what is flooded: names are long. */
		if (i % (*argv[1] == 'n' ? 32 : 128) == 0)
			usleep(5000);
	}
	for (int i = 4; i < argc; i++) {
		lib = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (!lib) {
			fprintf(stderr, "flood: %s\n", dlerror());
			return 2;
		}
		fn("cuCtxSynchronize")();
		usleep(30000);
	}
	say("done");
	wait_for_word();
	return 0;
}
