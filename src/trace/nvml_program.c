/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nvml_program.h"

#include "util/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Space for a few hundred samples of a device with several processes. */
#define ROOM_SZ (1 << 20)

/* The Makefile has this dependency. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"nvml_bytes: .incbin \"" NVML_PROGRAM "\"\n"
	"nvml_end:\n"
	".popsection\n");
extern const char nvml_bytes[] __attribute__((visibility("hidden")));
extern const char nvml_end[] __attribute__((visibility("hidden")));

static void __attribute__((noreturn)) become(int sock, unsigned period_ms)
{
	size_t size = nvml_end - nvml_bytes;
	char number[16], name[] = "cudatrace-nvml";
	char *argv[] = {name, number, NULL};
	/* A crash of NVML ends this process, whichever way the signal comes. */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
	sigset_t all;
	int fd;

	child_begin(sock, name);
	snprintf(number, sizeof(number), "%u", period_ms);
	/* It ends with the tracer, so signals to the whole group are blocked. */
	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	sigprocmask(SIG_SETMASK, &all, NULL);
	(void)!chdir("/");
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && write(fd, nvml_bytes, size) == (ssize_t)size)
		fexecve(fd, argv, environ);
	_exit(127);
}

void nvml_program__start(struct nvml_program *p, unsigned period_ms)
{
	int room = ROOM_SZ;

	*p = (struct nvml_program){0};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->socks)) {
		p->error = -errno;
		return;
	}
	p->has_socks = true;
	setsockopt(p->socks[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	p->pid = fork();
	if (!p->pid)
		become(p->socks[1], period_ms);
	if (p->pid > 0)
		return;
	p->error = -errno;
	nvml_program__end(p);
}

bool nvml_program__has_ended(struct nvml_program *p, int *status)
{
	if (p->pid <= 0 || waitpid(p->pid, status, WNOHANG) != p->pid)
		return false;
	p->pid = 0;
	return true;
}

void nvml_program__end(struct nvml_program *p)
{
	for (int i = 0; i < 2 && p->has_socks; i++)
		close(p->socks[i]);
	p->has_socks = false;
	/* A hanging process does not detect that. It may hang in the driver, so do not wait for it:
	 * init will reap it. */
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, WNOHANG);
	}
	p->pid = 0;
}
