/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "nvml_program.h"

#include "util/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Some hundred samples of a device with some processes. */
#define ROOM_SZ (1 << 20)

/* The Makefile knows that this depends on it. */
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
	sigset_t none;
	int fd;

	child_begin(sock, name);
	snprintf(number, sizeof(number), "%u", period_ms);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void)!chdir("/");
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd >= 0 && write(fd, nvml_bytes, size) == (ssize_t)size)
		fexecve(fd, argv, environ);
	_exit(127);
}

int nvml_program__start(unsigned period_ms, pid_t *pid, int socks[2])
{
	int ret, room = ROOM_SZ;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return -errno;
	setsockopt(socks[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	*pid = fork();
	if (!*pid)
		become(socks[1], period_ms);
	if (*pid > 0)
		return 0;
	ret = -errno;
	close(socks[0]);
	close(socks[1]);
	return ret;
}
