/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Joins a tracer as the library does. Call set_up() first. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ct_shm.h"

static char lib_path[sizeof(((struct ct_shm_hello *)0)->lib_path)];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int dial(void)
{
	const char *name = getenv(CT_ENV_SOCKET);
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (!name || fd < 0)
		die("socket");
	memcpy(sa.sun_path, name, strlen(name));
	if (name[0] == '@')
		sa.sun_path[0] = 0;
	if (connect(fd, (void *)&sa,
		    offsetof(struct sockaddr_un, sun_path) + strlen(name) + (name[0] != '@')))
		die("connect");
	return fd;
}

/* Sends the hello; returns the shared memory, or NULL if refused. */
static struct ct_shm *join_as(int fd, enum ct_shm_how how)
{
	struct ct_shm_hello h = {
		.magic = CT_SHM_MAGIC, .version = CT_SHM_VERSION, .how = how, .pid = getpid()};
	struct ct_shm_welcome w = {0};
	struct iovec iov = {&w, sizeof(w)};
	char control[CMSG_SPACE(2 * sizeof(int))];
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int fds[2];
	struct ct_shm *m;

	strcpy(h.comm, "hostile");
	memcpy(h.lib_path, lib_path, sizeof(h.lib_path));
	if (send(fd, &h, sizeof(h), MSG_NOSIGNAL) != sizeof(h) ||
	    recvmsg(fd, &msg, 0) != sizeof(w) || w.status)
		return NULL;
	/* No descriptor: it is another library of a joined process. */
	if (!CMSG_FIRSTHDR(&msg))
		return NULL;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fds));
	m = mmap(NULL, w.shm_sz, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	close(fds[0]);
	close(fds[1]);
	return m == MAP_FAILED ? NULL : m;
}

static struct ct_shm *join(int fd)
{
	return join_as(fd, CT_SHM_PRELOAD);
}

static struct ct_shm *must_join(int fd)
{
	struct ct_shm *m = join(fd);

	if (!m)
		die("refused");
	return m;
}

static struct ct_shm_slot *slot_of(struct ct_shm *m, unsigned i)
{
	return (void *)((char *)m + m->slots_off + i * m->stride);
}

static void say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

/* Removes what loads the library: only the test talks to the tracer. Ends with its parent. */
static void set_up(char **argv)
{
	char path[PATH_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getenv("LD_PRELOAD")) {
		unsetenv("LD_PRELOAD");
		unsetenv("CUDA_INJECTION64_PATH");
		execv("/proc/self/exe", argv);
		die("exec");
	}
	if (!realpath(argv[1], path) || strlen(path) >= sizeof(lib_path) || !dlopen(path, RTLD_NOW))
		die(argv[1]);
	strcpy(lib_path, path);
}
