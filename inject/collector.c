/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tracing by LD_PRELOAD without a tracer. The first process chooses a name, which its children
 * inherit. The first process that calls CUDA starts a collector, which listens at that name. The
 * collector is cudatrace itself, and ends with the last of these processes.
 *
 * The program must not be affected by the collector. It is not a child, for which the program might
 * wait or get SIGCHLD, has none of the program's descriptors, and is in a session of its own. So it
 * is created by a process that shares our memory and ends before we continue.
 */
#include "inject.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define NAME_BEGIN  "@cudatrace-auto-"
#define OUT_DEFAULT "/tmp/cuda-trace.jsonl"
#define STACK_SZ    (64 << 10)
#define ENV_MAX	    4096
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

extern char **environ __attribute__((weak));

/* A file name without a directory is relative to the directory in which the first process was
 * started. */
static void keep_folder(void)
{
	const char *out = env_get(CT_ENV_OUT);
	char path[PATH_MAX];
	size_t len;

	if (!out || !*out || *out == '/' || sys(SYS_getcwd, path, sizeof(path)) <= 0 ||
	    path[0] != '/')
		return;
	len = strlen(path);
	if (len + 1 + strlen(out) >= sizeof(path))
		return;
	path[len] = '/';
	strcpy(path + len + 1, out);
	env_set(CT_ENV_OUT, path);
}

const char *collector_name(void)
{
	static char name[64] = NAME_BEGIN;
	size_t len = strlen(name);

	keep_folder();
	len += put_number(name + len, sys(SYS_getpid), 10);
	name[len++] = '-';
	/* The name must be unused. */
	put_number(name + len, inject_now() ^ (uintptr_t)name << 20, 16);
	sandbox_keep();
	return env_set(CT_ENV_SOCKET, name) ? name : NULL;
}

bool collector_is_name(const char *name)
{
	return !strncmp(name, NAME_BEGIN, strlen(NAME_BEGIN));
}

struct start_args {
	int pid; /* of the process that stays */
	char paths[5][PATH_MAX];
	char collect[128];
	char *argv[7];
	char *env[ENV_MAX];
	bool failed;
};

/* Beside the library in the build directory, in the installation directory, and in the directories
 * of programs. */
static bool find_self(const struct object *o, void *arg)
{
	static const char *const behind[] = {"cudatrace", "../../bin/cudatrace",
					     "../bin/cudatrace"};
	struct start_args *s = arg;
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

/* The process that stays. It runs in our memory until it executes another program. */
static int run(void *arg)
{
	struct start_args *s = arg;

	sys(SYS_setsid);
	for (long fd = 0; fd < 3; fd++)
		sys(SYS_close, fd);
	if (sys(SYS_close_range, 3, UINT_MAX, 0))
		for (long fd = 3; fd < 1024; fd++)
			sys(SYS_close, fd);
	for (unsigned i = 0; i < 3; i++)
		sys(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	for (unsigned i = 0; i < 5; i++)
		if (s->paths[i][0])
			sys(SYS_execve, s->paths[i], s->argv, s->env);
	s->failed = true;
	sys(SYS_exit, 1);
	return 1;
}

/* Creates it and ends, so that it is not a child of the program. */
static int make(void *arg)
{
	char *stack = (char *)arg - STACK_SZ;

	struct start_args *s = arg;

	s->pid = sys_clone_vfork(run, stack, s);
	if (s->pid < 0)
		s->failed = true;
	sys(SYS_exit, 0);
	return 0;
}

static void fill(struct start_args *s, const char *name)
{
	const char *out = env_get(CT_ENV_OUT), *kernel = env_get(CT_ENV_KERNEL);
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

/* Returns whether this is the first process with this name to report. Only an empty file outlives
 * the processes. */
static bool is_first(const char *name)
{
	char path[64 + 8] = "/tmp/.";
	int fd;

	strcpy(path + strlen(path), name + 1);
	fd = sys(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		 0600);
	if (fd >= 0)
		sys(SYS_close, fd);
	return fd != -EEXIST;
}

static bool can_write(void)
{
	const char *out = env_get(CT_ENV_OUT), *slash;
	char folder[PATH_MAX];
	long ret;

	if (!out || !*out)
		out = OUT_DEFAULT;
	ret = sys(SYS_faccessat, AT_FDCWD, out, W_OK);
	slash = strrchr(out, '/');
	if (ret != -ENOENT || !slash || (size_t)(slash - out) >= sizeof(folder) - 1)
		return !ret;
	memcpy(folder, out, slash - out + 1);
	folder[slash - out + 1] = 0;
	return !sys(SYS_faccessat, AT_FDCWD, folder, W_OK);
}

void collector_failed(const char *name)
{
	if (!is_first(name))
		return;
	if (can_write() && sandbox_is_filtered())
		log_warn(
			"not traced: cudatrace did not start; the process has a system call filter "
			"(seccomp), which probably refuses what it needs: as root, --probe=uprobe traces it",
			0);
	else
		log_warn(
			"not traced: cudatrace did not start, probably because it cannot write its output: "
			"set " CT_ENV_OUT " to a file that you may create (default: " OUT_DEFAULT
			")",
			0);
}

int collector_start(const char *name, int *collector_pid)
{
	size_t size = 2 * STACK_SZ + sizeof(struct start_args);
	uint64_t all = ~0ull, old;
	struct start_args *s;
	int pid, err = 0;
	char *mem = sys_map(size, 0);

	if (!mem)
		return -ENOMEM;
	s = (struct start_args *)(mem + 2 * STACK_SZ);
	fill(s, name);
	/* No signal handler of the program may run in the processes that share its memory. */
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
	pid = sys_clone_vfork(make, s, s);
	if (pid < 0)
		err = pid;
	else
		while (sys(SYS_wait4, pid, NULL, __WALL, NULL) == -EINTR)
			;
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
	if (!err && s->failed)
		err = -ENOENT;
	*collector_pid = s->pid;
	sys(SYS_munmap, mem, size);
	if (err == -ENOENT && is_first(name))
		log_warn(
			"not traced: cudatrace is not in the directory of the library, in "
			"/usr/local/bin or in /usr/bin: install it there, or run cudatrace -- PROGRAM",
			0);
	return err;
}
