/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "helper.h"

#include "util/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Space for a few hundred samples of a device with several processes. */
#define ROOM_SZ	 (1 << 20)
#define ARGS_MAX 3
/* Time for a process to end by itself. */
#define END_MS 500

/* The Makefile has this dependency. */
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"nvml_bytes: .incbin \"" NVML_PROGRAM "\"\n"
	"nvml_end:\n"
	".balign 8\n"
	"pm_bytes: .incbin \"" PM_PROGRAM "\"\n"
	"pm_end:\n"
	".popsection\n");
#define BYTES extern const char __attribute__((visibility("hidden")))
BYTES nvml_bytes[], nvml_end[], pm_bytes[], pm_end[];

static const struct {
	const char *name, *bytes, *end;
} programs[] = {
	[HELPER_NVML] = {"cudatrace-nvml", nvml_bytes, nvml_end},
	[HELPER_PM] = {"cudatrace-pm", pm_bytes, pm_end},
};

static void __attribute__((noreturn)) become(int sock, enum helper_id id, const char *const args[])
{
	const char *name = programs[id].name, *bytes = programs[id].bytes;
	size_t size = programs[id].end - bytes;
	const char *argv[ARGS_MAX + 2] = {name};
	/* A crash of NVIDIA's library ends this process, whichever way the signal comes. */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
	sigset_t all;
	int fd;

	child_begin(sock, name);
	for (unsigned i = 0; i < ARGS_MAX && args[i]; i++)
		argv[i + 1] = args[i];
	/* It ends with the tracer, so signals to the whole group are blocked. */
	sigfillset(&all);
	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]);
	sigprocmask(SIG_SETMASK, &all, NULL);
	(void)!chdir("/");
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && write(fd, bytes, size) == (ssize_t)size)
		fexecve(fd, (char **)argv, environ);
	_exit(127);
}

void helper__start(struct helper *p, enum helper_id id, const char *const args[])
{
	int room = ROOM_SZ;

	*p = (struct helper){.ends_itself = id == HELPER_PM};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->socks)) {
		p->error = -errno;
		return;
	}
	p->has_socks = true;
	setsockopt(p->socks[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	p->pid = fork();
	if (!p->pid)
		become(p->socks[1], id, args);
	if (p->pid > 0)
		return;
	p->error = -errno;
	helper__end(p);
}

bool helper__has_ended(struct helper *p, int *status)
{
	siginfo_t info = {0};

	if (p->pid <= 0 || waitid(P_PID, p->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	    !info.si_pid)
		return false;
	/* Processes that NVIDIA's library left are in the same group; its number is ours as long as
	 * the process is a zombie. */
	kill(-p->pid, SIGKILL);
	waitpid(p->pid, status, 0);
	p->pid = 0;
	return true;
}

void helper__end(struct helper *p)
{
	int status;

	for (int i = 0; i < 2 && p->has_socks; i++)
		close(p->socks[i]);
	p->has_socks = false;
	/* It ends its use of the GPU. A hanging process does not detect that. It may hang in the
	 * driver, so do not wait longer: init will reap it. */
	for (int i = 0; i < END_MS && p->ends_itself && !helper__has_ended(p, &status); i++)
		usleep(1000);
	if (p->pid > 0) {
		kill(-p->pid, SIGKILL);
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, WNOHANG);
	}
	p->pid = 0;
}
