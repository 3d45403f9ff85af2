/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * alone LIBCUDA: effects on a program of a tracer that its own library has started. Calls the
 * driver and prints what it finds: children, SIGCHLD, descriptors, blocked signals, children's
 * times. Prints "waiting", waits for a line, calls once more and ends.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void on_child(int sig)
{
	signals += sig == SIGCHLD;
}

static void descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;

	while ((e = readdir(dir)))
		if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(dir))
			printf("descriptor %s\n", e->d_name);
	closedir(dir);
}

static void found(void)
{
	struct rusage used;
	sigset_t blocked;
	int child;

	errno = 0;
	child = waitpid(-1, NULL, __WALL);
	printf("waitpid %d %s\n", child, strerror(errno));
	printf("SIGCHLD %d\n", (int)signals);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&blocked, i) == 1)
			printf("blocked %d\n", i);
	getrusage(RUSAGE_CHILDREN, &used);
	printf("processor %d\n", used.ru_utime.tv_sec > 0);
	printf("session %d\n", getsid(0) == getpgid(0));
	descriptors();
}

int main(int argc, char **argv)
{
	int (*init)(unsigned), (*version)(int *), v = 0;
	void *lib;

	signal(SIGCHLD, on_child);
	lib = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!lib)
		return 2;
	*(void **)&init = dlsym(lib, "cuInit");
	*(void **)&version = dlsym(lib, "cuDriverGetVersion");
	printf("calls %d %d\n", init(0), version(&v));
	found();
	printf("waiting\n");
	fflush(stdout);
	(void)!getchar();
	printf("calls %d\n", version(&v));
	fflush(stdout);
	found();
	return 0;
}
