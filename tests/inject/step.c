/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * step FILE N [SIGNAL [FILL]]: a program that calls cuDriverGetVersion four times, and is killed N
 * instructions after the third has returned. A word of FILE has the number of returned calls. With
 * SIGNAL (0: none) it gets that signal instead, whose handler leaves by longjmp(), and calls once
 * more. With FILL it makes that many calls before, of which the tracer, its grandparent, reads none
 * until the program has ended: calls without room in the ring are dropped. Prints "killed", or
 * "over": it had made the fourth call and ended.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf there;

static void leave(int sig)
{
	siglongjmp(there, 1);
}

static int calls(const char *path, int sig, long fill)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*version)(int *) = lib ? (int (*)(int *))dlsym(lib, "cuDriverGetVersion") : NULL;
	int fd = open(path, O_RDWR | O_CREAT, 0644), v;
	volatile uint64_t *returned;

	if (!version || fd < 0 || ftruncate(fd, 4096))
		return 2;
	returned = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (returned == MAP_FAILED)
		return 2;
	if (sig)
		signal(sig, leave);
	for (long i = 0; i < fill; i++) {
		version(&v);
		/* The tracer has the hello of this process. */
		if (!i)
			raise(SIGSTOP);
	}
	for (int i = 0; i < 4 && !sigsetjmp(there, 1); i++) {
		if (i == 3)
			raise(SIGSTOP);
		version(&v);
		++*returned;
	}
	if (sig) {
		signal(sig, SIG_IGN);
		version(&v);
	}
	raise(SIGSTOP);
	return 0;
}

/* Lets it run until it stops itself. */
static void run_on(pid_t pid, int *status)
{
	while (waitpid(pid, status, 0) == pid && WIFSTOPPED(*status) &&
	       WSTOPSIG(*status) != SIGSTOP)
		ptrace(PTRACE_CONT, pid, NULL, NULL);
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : -1;
	int sig = argc > 3 ? atoi(argv[3]) : 0;
	long fill = argc > 4 ? atol(argv[4]) : 0;
	int status;
	pid_t pid;

	if (n < 0)
		return argc > 1 ? calls(argv[1], sig, fill) : 2;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/proc/self/exe", argv[0], argv[1], "-1", argv[3], argc > 3 ? argv[4] : NULL,
		      NULL);
		_exit(2);
	}
	run_on(pid, &status);
	if (fill) {
		kill(getppid(), SIGSTOP);
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		run_on(pid, &status);
	}
	for (; WIFSTOPPED(status) && n > 0; n--) {
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
		    WSTOPSIG(status) != SIGTRAP)
			break;
	}
	puts(n ? "over" : "killed");
	if (!n && !sig)
		kill(pid, SIGKILL);
	for (sig = n ? 0 : sig; ptrace(PTRACE_CONT, pid, NULL, (void *)(long)sig) == 0; sig = 0)
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
			break;
	if (fill)
		kill(getppid(), SIGCONT);
	return 0;
}
