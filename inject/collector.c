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

/* A file's name without a folder means where the first process was started, wherever whoever calls
 * CUDA has gone. */
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
	/* Nobody else is to have it already. */
	put_number(name + len, inject_now() ^ (uintptr_t)name << 20, 16);
	sandbox_keep();
	return env_set(CT_ENV_SOCKET, name) ? name : NULL;
}

bool collector_is_name(const char *name)
{
	return !strncmp(name, NAME_BEGIN, strlen(NAME_BEGIN));
}

struct start_args {
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

/* The one that stays. It runs in our memory until it has become another program. */
static int run(void *arg)
{
	struct start_args *s = arg;
	int null;

	sys(SYS_setsid);
	null = sys(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	for (long fd = 0; null >= 0 && fd < 3; fd++)
		sys(SYS_dup3, null, fd, 0);
	if (sys(SYS_close_range, 3, UINT_MAX, 0))
		for (long fd = 3; fd < 1024; fd++)
			sys(SYS_close, fd);
	for (unsigned i = 0; i < 5; i++)
		if (s->paths[i][0])
			sys(SYS_execve, s->paths[i], s->argv, s->env);
	s->failed = true;
	sys(SYS_exit, 1);
	return 1;
}

/* Makes it, and is gone: then it is nobody's child. */
static int make(void *arg)
{
	char *stack = (char *)arg - STACK_SZ;

	if (sys_clone_vfork(run, stack, arg) < 0)
		((struct start_args *)arg)->failed = true;
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

/* Of all the processes that have inherited the name, is it the first to tell? What outlives them is
 * a file without content. */
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

int collector_start(const char *name)
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
	/* No handler of the program's may run in the processes that share its memory. */
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
	sys(SYS_munmap, mem, size);
	if (err == -ENOENT && is_first(name))
		tell("not traced: cudatrace is not in the directory of the library, in "
		     "/usr/local/bin or in /usr/bin: install it there, or run cudatrace -- PROGRAM",
		     0);
	return err;
}
