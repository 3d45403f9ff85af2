/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * churn WHAT SECONDS LIBRARY: repeats an action for that time, after a call of the library; prints
 * how often.
 *
 *   renames   changes the name of its thread
 *   forks     creates a process that ends at once
 *   threads   creates a thread that makes a call
 *   execs     creates a process that runs this program, which loads the library and makes a call
 *   loads     loads the library again, makes a call, unloads it
 *   sessions  creates a process in a new session that creates a process ...
 *   once      used by execs
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static void *lib;
static int (*version)(int *);

static void call(void)
{
	int v;

	version(&v);
}

static void load(void)
{
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	version = lib ? (int (*)(int *))dlsym(lib, "cuDriverGetVersion") : NULL;
	if (!version) {
		fprintf(stderr, "churn: %s\n", dlerror());
		exit(1);
	}
	call();
}

static void *in_thread(void *arg)
{
	call();
	return arg;
}

static void once(const char *what, long i)
{
	char name[16];
	pthread_t t;
	pid_t pid;

	switch (*what) {
	case 'r':
		snprintf(name, sizeof(name), "n%ld", i);
		prctl(PR_SET_NAME, name);
		return;
	case 't':
		if (!pthread_create(&t, NULL, in_thread, NULL))
			pthread_join(t, NULL);
		return;
	case 'l':
		dlclose(lib);
		load();
		return;
	}
	pid = fork();
	if (!pid && *what == 'e')
		execl("/proc/self/exe", "churn", "once", "0", path, NULL);
	if (!pid && *what == 's' && !setsid() && !fork())
		_exit(0);
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end;
	long n = 0;

	if (argc != 4)
		return 2;
	path = argv[3];
	load();
	if (!strcmp(argv[1], "once"))
		return 0;
	for (end = now() + atof(argv[2]); now() < end;)
		once(argv[1], n++);
	printf("%ld\n", n);
	return 0;
}
