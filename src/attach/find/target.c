/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All data here comes from /proc, and another user's process may have crafted it. A file is
 * identified by device and inode; its name is only for messages.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "target.h"
#include "util/log.h"
#include "util/reader.h"
#include "util/privs.h"
#include "util/task.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPS_SZ_MAX (64u << 20)
/* Lines between checks of the time budget. */
#define LINES_AT_ONCE 256
/* Maximum files of a process that cannot be opened. */
#define FAILED_MAX 64

static void free_lib(struct target_lib *lib)
{
	free(lib->open_path);
	free(lib->path);
}

void target_libs__clear(struct target_libs *list)
{
	unsigned i;

	for (i = 0; i < list->cnt; i++)
		free_lib(&list->libs[i]);
	free(list->libs);
	list->libs = NULL;
	list->cnt = 0;
}

static bool same_key(const struct ct_lib_key *a, const struct ct_lib_key *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static struct target_lib *find_lib(const struct target_libs *list, const struct ct_lib_key *key)
{
	unsigned i;

	for (i = 0; i < list->cnt; i++) {
		if (same_key(&list->libs[i].key, key))
			return &list->libs[i];
	}
	return NULL;
}

/* Takes ownership of open_path. */
static int put_lib(struct target_libs *list, const struct map_line *m, pid_t pid, char *open_path)
{
	struct target_lib *lib = find_lib(list, &m->key), *libs;

	if (!lib) {
		libs = reallocarray(list->libs, list->cnt + 1, sizeof(*libs));
		if (!libs)
			goto oom;
		list->libs = libs;
		lib = &libs[list->cnt];
		memset(lib, 0, sizeof(*lib));
		lib->path = strdup(m->path);
		if (!lib->path)
			goto oom;
		lib->api = m->api;
		lib->key = m->key;
		list->cnt++;
	} else if (lib->pid) {
		free(open_path);
		return 0;
	}
	/* New, or known only from the file system: now a process maps it. */
	free(lib->open_path);
	lib->open_path = open_path;
	lib->pid = pid;
	lib->deleted = m->deleted;
	return 0;
oom:
	free(open_path);
	return -ENOMEM;
}

/* The kernel writes a newline in a file name as \012, but does not escape a backslash. So this may
 * be ambiguous; the inode is compared afterwards. */
static void unescape(char *s)
{
	char *p;

	while ((p = strstr(s, "\\012"))) {
		*p = '\n';
		memmove(p + 1, p + 4, strlen(p + 4) + 1);
		s = p + 1;
	}
}

/*
 * Checks whether path opens and is the mapped file. st_dev is not compared: stat() and maps differ
 * on btrfs and, before Linux 6.8, on overlayfs.
 */
static int try_open(pid_t pid, const char *path, uint64_t ino)
{
	int fd = reader__open(pid, path, 0), ret = 0;
	struct stat st;

	if (fd == -EISDIR || fd == -EINVAL)
		return -ENOENT;
	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		ret = -errno;
	else if (ino && st.st_ino != ino)
		ret = -ENOENT;
	close(fd);
	return ret;
}

/* Finds a path by which this process can open what pid maps. */
static int choose_path(const struct map_line *m, pid_t pid, char **out)
{
	char *path = NULL;
	int ret;

	/* This one is right even for a file that is deleted, replaced, or in another mount
	 * namespace. Needs CAP_SYS_ADMIN, or from Linux 5.9 CAP_CHECKPOINT_RESTORE. */
	if (asprintf(&path, "/proc/%d/map_files/%llx-%llx", pid, (unsigned long long)m->start,
		     (unsigned long long)m->end) < 0)
		return -ENOMEM;
	ret = try_open(pid, path, 0);
	if (!ret)
		goto found;
	free(path);
	/* Other paths would fail, too. */
	if (ret == -EREMOTE || ret == -ETIMEDOUT || ret == -EBUSY)
		return ret;
	if (asprintf(&path, "/proc/%d/root%s", pid, m->path) < 0)
		return -ENOMEM;
	unescape(path);
	if (!try_open(pid, path, m->key.ino))
		goto found;
	free(path);
	path = strdup(m->path);
	if (!path)
		return -ENOMEM;
	unescape(path);
	if (!try_open(pid, path, m->key.ino))
		goto found;
	free(path);
	/* Without access to map_files: the process may still have the file open. */
	path = target_fd_path(pid, m->key.ino, m->path);
	if (path)
		goto found;
	return ret;
found:
	*out = path;
	return 0;
}

int target_open_mapped(const struct map_line *m, pid_t pid)
{
	char *path = NULL;
	int ret = choose_path(m, pid, &path);

	if (!ret)
		ret = reader__open(pid, path, 0);
	free(path);
	return ret;
}

/* Warns once, because the file is found repeatedly. */
static void report_remote(const struct map_line *m, pid_t pid)
{
	static bool warned;

	if (!warned)
		warn("%s of process %d is on a file system that another user serves (FUSE): it is "
		     "not traced; put a copy on a disk",
		     m->path, pid);
	warned = true;
}

static int add_mapped(struct target_libs *list, const struct map_line *m, pid_t pid)
{
	char *path = NULL;
	int ret = choose_path(m, pid, &path);

	if (ret == -ENOMEM)
		return ret;
	if (ret) {
		/* Gone meanwhile: the process ended, or (ENOENT) unloaded it. */
		if (!task_living(pid))
			return -ESRCH;
		if (ret == -ENOENT)
			return 0;
		if (ret == -EREMOTE) {
			report_remote(m, pid);
			return 0;
		}
		warn("cannot open %s of process %d: %s; run as root, or with cap_sys_ptrace and "
		     "cap_checkpoint_restore",
		     m->path, pid, strerror(-ret));
		return ret == -EPERM ? -EACCES : ret;
	}
	return put_lib(list, m, pid, path);
}

/* A process may have millions of lines of up to 4 KiB: check whether the pages are executable
 * before parsing. */
static bool is_executable(const char *line)
{
	const char *perms = strchr(line, ' ');

	return perms && strnlen(perms, 4) == 4 && perms[3] == 'x';
}

static int each_line(FILE *f, int (*fn)(void *ctx, const struct map_line *m), void *ctx)
{
	struct map_line m;
	char *line = NULL;
	size_t size = 0;
	int ret = 0;

	for (unsigned i = 1; !ret && getline(&line, &size, f) >= 0; i++) {
		if (!(i % LINES_AT_ONCE) && !time_budget__has_time())
			ret = -EAGAIN;
		else if (is_executable(line) && target_parse_map_line(line, &m))
			ret = fn(ctx, &m);
	}
	free(line);
	return ret;
}

/* Opens a copy of the process's maps. Returns 0 or an error of target_each_mapped(). */
static int open_maps(pid_t pid, FILE **f)
{
	int fd = reader__copy(pid, "maps", MAPS_SZ_MAX);

	*f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (*f)
		return 0;
	return fd == -ENOENT ? -ESRCH : fd < 0 ? fd : -ENOMEM;
}

int target_each_mapped(pid_t pid, int (*fn)(void *ctx, const struct map_line *m), void *ctx)
{
	struct work w;
	FILE *f;
	int ret;

	if (reader__begin(&w, pid, WORK_FILES))
		return -EAGAIN;
	ret = open_maps(pid, &f);
	if (!ret) {
		ret = each_line(f, fn, ctx);
		fclose(f);
	}
	time_budget__end(&w);
	return ret;
}

int target_maps(pid_t pid, const char *part)
{
	char *line = NULL;
	size_t size = 0;
	struct work w;
	FILE *f;
	int ret;

	if (reader__begin(&w, pid, WORK_FILES))
		return -EAGAIN;
	ret = open_maps(pid, &f);
	if (!ret) {
		while (!ret && getline(&line, &size, f) >= 0)
			ret = strstr(line, part) != NULL;
		fclose(f);
	}
	free(line);
	time_budget__end(&w);
	return ret;
}

struct scan {
	struct target_libs *list;
	pid_t pid;
	const struct ct_lib_key *only; /* or NULL: all files */
	const char *name;	       /* of the file in `only` */
	bool found;
	unsigned failed;
	int ret;
};

/* On some file systems maps has another inode for the file: then the name decides. */
static bool is_wanted(const struct scan *s, const struct map_line *m)
{
	return !s->only || m->key.ino == s->only->ino ||
	       !strcmp(strrchr(m->path, '/') + 1, s->name);
}

/* A file that cannot be opened may have a line for each page: remember it. */
static int scan_line(void *ctx, const struct map_line *m)
{
	const struct target_lib *known;
	struct scan *s = ctx;
	int ret;

	if (!is_wanted(s, m))
		return 0;
	s->found = true;
	known = find_lib(s->list, &m->key);
	if (known && known->pid)
		return 0;
	if (!time_budget__has_time())
		return -EAGAIN;
	ret = add_mapped(s->list, m, s->pid);
	s->ret = s->ret ?: ret;
	s->failed += ret != 0;
	return s->failed < FAILED_MAX ? 0 : ret;
}

/* Returns whether pid maps a library of ours, or -errno. */
static int scan_maps(struct scan *s)
{
	int ret = target_each_mapped(s->pid, scan_line, s);

	return ret ?: s->ret ?: s->found;
}

int target_libs__add_pid(struct target_libs *list, pid_t pid)
{
	struct scan s = {.list = list, .pid = pid};
	int ret;

	if (!target_exists(pid))
		return -ESRCH;
	ret = scan_maps(&s);
	return ret < 0 ? ret : 0;
}

int target_libs__add_mapped(struct target_libs *list, pid_t pid, const struct ct_lib_key *key,
			    const char *name)
{
	struct scan s = {.list = list, .pid = pid, .only = key, .name = name};
	int ret;

	if (!target_exists(pid))
		return -ESRCH;
	ret = scan_maps(&s);
	return ret < 0 ? ret : 0;
}

struct all {
	struct target_libs *list;
	int cnt;
};

/* Other users' processes, and those that end meanwhile, are skipped silently. */
static bool add_one(void *ctx, pid_t pid)
{
	struct all *a = ctx;
	struct scan s = {.list = a->list, .pid = pid};
	int ret = scan_maps(&s);

	a->cnt += ret > 0;
	return ret != -ENOMEM;
}

int target_libs__add_all(struct target_libs *list)
{
	struct all a = {.list = list};

	return target_each(add_one, &a) ? a.cnt : -ENOMEM;
}

/*
 * Gets device and inode as maps shows them. stat() can differ (btrfs, overlayfs), so map the file
 * and read maps. The page is never accessed, which is safe if the file shrinks.
 */
static int key_of_fd(int fd, struct ct_lib_key *key)
{
	void *at = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	FILE *f = NULL;
	int ret = -ENOENT;
	struct map_line m = {0};
	char *line = NULL;
	size_t size = 0;

	if (at == MAP_FAILED)
		return -errno;
	f = fopen("/proc/self/maps", "re");
	if (!f)
		ret = -errno;
	while (f && ret && getline(&line, &size, f) >= 0) {
		if (!target_parse_file_line(line, &m) || m.start > (uintptr_t)at ||
		    m.end <= (uintptr_t)at)
			continue;
		*key = m.key;
		ret = 0;
	}
	free(line);
	if (f)
		fclose(f);
	munmap(at, 1);
	return ret;
}

static int add_fd(struct target_libs *list, const struct api *api, const char *path, int fd)
{
	struct map_line m = {.path = path, .api = api};
	const struct target_lib *known;
	struct stat st;
	char *copy;
	int ret;

	if (fstat(fd, &st))
		ret = -errno;
	else if (S_ISDIR(st.st_mode))
		ret = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		ret = -EINVAL;
	else
		ret = key_of_fd(fd, &m.key);
	close(fd);
	if (ret)
		return ret;
	known = find_lib(list, &m.key);
	if (known)
		return 0;
	copy = strdup(path);
	return copy ? put_lib(list, &m, 0, copy) : -ENOMEM;
}

int target_libs__add_path(struct target_libs *list, const struct api *api, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? -errno : add_fd(list, api, path, fd);
}

int target_libs__add_path_of(struct target_libs *list, const struct api *api, pid_t pid,
			     const char *path)
{
	int fd = reader__open(pid, path, 0);

	return fd < 0 ? fd : add_fd(list, api, path, fd);
}

int target_libs__add_file(struct target_libs *list, const char *path)
{
	int ret;

	privs_lower();
	ret = target_libs__add_path(list, api_at(API_CUDA), path);
	privs_raise();
	if (ret == -EINVAL)
		err("cannot use %s: not a regular file; give the path of a libcuda.so.1", path);
	else if (ret)
		err("cannot open %s: %s; give the path of a libcuda.so.1", path, strerror(-ret));
	return ret;
}

static int open_by_name(const char *path)
{
	struct stat st;
	int fd;

	privs_lower();
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	fd = fd < 0 ? -errno : fd;
	privs_raise();
	if (fd < 0 || (!fstat(fd, &st) && S_ISREG(st.st_mode)))
		return fd;
	close(fd);
	return -EINVAL;
}

/* A process closes its library once it is mapped. The next file with that descriptor may be a
 * directory, a pipe, or of another kind. */
int target_lib__open(const struct target_lib *t)
{
	int fd = t->pid ? reader__open(t->pid, t->open_path, 0) : open_by_name(t->open_path);
	struct ct_lib_key key;

	if (t->pid && (fd == -EISDIR || fd == -EINVAL || fd == -EREMOTE))
		return -ENOENT;
	/* For a process that is ending but not yet a zombie, the kernel returns ESRCH or EACCES
	 * (Linux 6.18: mm_access(), proc_pid_permission(), proc_pid_get_link()). */
	if (t->pid && fd < 0 && !task_living(t->pid))
		return -ENOENT;
	if (fd < 0 || (!key_of_fd(fd, &key) && same_key(&key, &t->key)))
		return fd;
	close(fd);
	return -ENOENT;
}
