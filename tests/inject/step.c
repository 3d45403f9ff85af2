/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * step FILE N: a program that calls cuDriverGetVersion four times, and is killed N instructions
 * after the third has returned; in a word of FILE it keeps how many have. Prints "killed", or
 * "over": it had made the fourth by then, and ended.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int calls(const char *path)
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
	for (int i = 0; i < 4; i++) {
		if (i == 3)
			raise(SIGSTOP);
		version(&v);
		++*returned;
	}
	raise(SIGSTOP);
	return 0;
}

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : -1;
	int status;
	pid_t pid;

	if (argc == 2)
		return calls(argv[1]);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/proc/self/exe", argv[0], argv[1], NULL);
		_exit(2);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP)
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	for (; WIFSTOPPED(status) && n > 0; n--) {
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
		    WSTOPSIG(status) != SIGTRAP)
			break;
	}
	puts(n ? "over" : "killed");
	kill(pid, n ? SIGCONT : SIGKILL);
	ptrace(n ? PTRACE_CONT : PTRACE_KILL, pid, NULL, NULL);
	return waitpid(pid, &status, 0) != pid;
}
