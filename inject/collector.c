/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded where no tracer is: the first process chooses a name, which its children inherit, and
 * whoever calls CUDA first has a collector started that listens by it. That is cudatrace itself; it
 * ends with the last of them.
 *
 * The program is not to notice: the collector is no child of its, for which it might wait or be
 * sent SIGCHLD, has none of its descriptors and is in no session of its. So it is made by a process
 * that shares our memory and is gone before we go on.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME_BEGIN  "@cudatrace-auto-"
#define OUT_DEFAULT "/tmp/cuda-trace.jsonl"
#define STACK_SZ    (64 << 10)
#define ENV_MAX	    4096
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ;

static size_t put_number(char *to, unsigned long n, unsigned base)
{
	char digits[24];
	size_t len = 0;

	do
		digits[len++] = "0123456789abcdef"[n % base];
	while (n /= base);
	for (size_t i = 0; i < len; i++)
		to[i] = digits[len - 1 - i];
	to[len] = 0;
	return len;
}

/* A file's name without a folder means where the first process was started, wherever whoever calls
 * CUDA has gone. */
static void keep_folder(void)
{
	const char *out = getenv(CT_ENV_OUT);
	char path[PATH_MAX];
	size_t len;

	if (!out || !*out || *out == '/' || !getcwd(path, sizeof(path)))
		return;
	len = strlen(path);
	if (len + 1 + strlen(out) >= sizeof(path))
		return;
	path[len] = '/';
	strcpy(path + len + 1, out);
	setenv(CT_ENV_OUT, path, 1);
}

const char *collector_name(void)
{
	static char name[64] = NAME_BEGIN;
	size_t len = strlen(name);

	keep_folder();
	len += put_number(name + len, getpid(), 10);
	name[len++] = '-';
	/* Nobody else is to have it already. */
	put_number(name + len, inject_now() ^ (uintptr_t)name << 20, 16);
	return setenv(CT_ENV_SOCKET, name, 1) ? NULL : name;
}

bool collector_is_name(const char *name)
{
	return !strncmp(name, NAME_BEGIN, strlen(NAME_BEGIN));
}

struct starting {
	char paths[5][PATH_MAX];
	char collect[128];
	char *argv[7];
	char *env[ENV_MAX];
	bool failed;
};

/* Beside the library, as it is built; where it is installed; and where programs are. */
static bool find_self(const struct object *o, void *arg)
{
	static const char *const behind[] = {"cudatrace", "../../bin/cudatrace",
					     "../bin/cudatrace"};
	struct starting *s = arg;
	const char *slash;

	if (!object_has(o, inject_thunks, false, false))
		return false;
	slash = strrchr(o->path, '/');
	for (unsigned i = 0; slash && i < 3; i++) {
		size_t len = slash + 1 - o->path;

		if (len + strlen(behind[i]) >= PATH_MAX)
			continue;
		memcpy(s->paths[i], o->path, len);
		strcpy(s->paths[i] + len, behind[i]);
	}
	strcpy(s->paths[3], "/usr/local/bin/cudatrace");
	strcpy(s->paths[4], "/usr/bin/cudatrace");
	return true;
}

static bool is_ours(const char *var)
{
	return !strncmp(var, "LD_PRELOAD=", 11) || !strncmp(var, "CUDA_INJECTION64_PATH=", 22) ||
	       !strncmp(var, CT_ENV_SOCKET "=", sizeof(CT_ENV_SOCKET));
}

/* The one that stays. It runs in our memory until it has become another program. */
static int run(void *arg)
{
	struct starting *s = arg;
	int null;

	syscall(SYS_setsid);
	null = syscall(SYS_openat, (long)AT_FDCWD, "/dev/null", (long)O_RDWR, 0l);
	for (long fd = 0; null >= 0 && fd < 3; fd++)
		syscall(SYS_dup3, (long)null, fd, 0l);
	if (syscall(SYS_close_range, 3l, (long)UINT_MAX, 0l))
		for (long fd = 3; fd < 1024; fd++)
			syscall(SYS_close, fd);
	for (unsigned i = 0; i < 5; i++)
		if (s->paths[i][0])
			syscall(SYS_execve, s->paths[i], s->argv, s->env);
	s->failed = true;
	syscall(SYS_exit, 1l);
	return 1;
}

/* Makes it, and is gone: then it is nobody's child. */
static int make(void *arg)
{
	char *stack = (char *)arg - STACK_SZ;

	if (clone(run, stack, CLONE_VM | CLONE_VFORK, arg) < 0)
		((struct starting *)arg)->failed = true;
	syscall(SYS_exit, 0l);
	return 0;
}

static void fill(struct starting *s, const char *name)
{
	const char *out = getenv(CT_ENV_OUT), *kernel = getenv(CT_ENV_KERNEL);
	size_t len = 10, n = 0;

	memcpy(s->collect, "--collect=", len);
	for (const char *pid = name + strlen(NAME_BEGIN); *pid >= '0' && *pid <= '9'; pid++)
		s->collect[len++] = *pid;
	s->collect[len++] = ':';
	strcpy(s->collect + len, name);
	s->argv[0] = (char *)"cudatrace";
	s->argv[1] = (char *)"-q";
	s->argv[2] = (char *)"--jsonl";
	s->argv[3] = (char *)(out && *out ? out : OUT_DEFAULT);
	s->argv[4] = s->collect;
	if (kernel && *kernel && strcmp(kernel, "0"))
		s->argv[5] = (char *)"--kernel";
	for (char **e = environ; e && *e && n < ENV_MAX - 1; e++)
		if (!is_ours(*e))
			s->env[n++] = *e;
	objects_each(find_self, s);
}

int collector_start(const char *name)
{
	size_t size = 2 * STACK_SZ + sizeof(struct starting);
	uint64_t all = ~0ull, old;
	struct starting *s;
	int pid, err = 0;
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return -ENOMEM;
	s = (struct starting *)(mem + 2 * STACK_SZ);
	fill(s, name);
	/* No handler of the program's may run in the processes that share its memory. */
	syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &all, &old, 8l);
	pid = clone(make, s, CLONE_VM | CLONE_VFORK, s);
	if (pid < 0)
		err = -errno;
	else
		while (syscall(SYS_wait4, (long)pid, NULL, (long)__WALL, NULL) < 0 &&
		       errno == EINTR)
			;
	syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &old, NULL, 8l);
	if (!err && s->failed)
		err = -ENOENT;
	munmap(mem, size);
	return err;
}
