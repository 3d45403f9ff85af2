/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The reading process: opens and copies. It may hang in any line here. */
#include "reader_priv.h"

#include "reader_mounts.h"
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_MAGIC    0x65735546
#define OVERLAY_MAGIC 0x794c7630
#define PROC_MAGIC    0x9fa0

/* For a file that is not on a mount of the process (any more). fstatfs() queries the file's
 * server. */
static bool is_trusted_type(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type != FUSE_MAGIC && fs.f_type != OVERLAY_MAGIC &&
	       fs.f_type != PROC_MAGIC;
}

/* Returns whether only the administrator controls reads of it. fd is O_PATH: its server was not
 * involved so far. */
static bool is_safe(int fd, pid_t pid)
{
	struct statx st;
	int safe;

	/* Before Linux 5.8 statx does not return the mount of a file. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) ||
	    !(st.stx_mask & STATX_MNT_ID))
		return is_trusted_type(fd);
	safe = reader_mounts__are_safe(pid, st.stx_mnt_id);
	return safe < 0 ? is_trusted_type(fd) : safe;
}

static int open_inside(pid_t pid, const char *path, int flags)
{
	char root[64];
	int root_fd, fd;

	snprintf(root, sizeof(root), "/proc/%d/root", (int)pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	fd = reader_walk(root_fd, path, flags);
	close(root_fd);
	return fd;
}

static int open_path(const struct reader_request *r)
{
	char root[64];
	size_t len = snprintf(root, sizeof(root), "/proc/%d/root/", (int)r->pid);
	int fd;

	if (r->pid && !strncmp(r->path, root, len))
		return open_inside(r->pid, r->path + len - 1, r->flags);
	fd = open(r->path, O_PATH | O_CLOEXEC | r->flags);
	return fd < 0 ? -errno : fd;
}

/* O_NONBLOCK: otherwise open would also wait for the holder of a lease on the file. */
static int open_file(const struct reader_request *r)
{
	int at = open_path(r), fd;
	struct stat st;
	char path[64];

	if (at < 0)
		return at;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (!is_safe(at, r->pid))
		fd = -EREMOTE;
	else if (fstat(at, &st))
		fd = -errno;
	else if (!S_ISREG(st.st_mode))
		fd = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	else if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0)
		fd = -errno;
	close(at);
	return fd;
}

static int copy_to(int to, int from, size_t max)
{
	char buf[65536];
	ssize_t n = 0;

	for (size_t left = max; left; left -= n) {
		n = read(from, buf, left < sizeof(buf) ? left : sizeof(buf));
		/* Bytes read before an error are valid. */
		if (n <= 0)
			break;
		if (write(to, buf, n) != n)
			return -ENOMEM;
	}
	return lseek(to, 0, SEEK_SET) ? -errno : 0;
}

static int copy_file(const struct reader_request *r)
{
	char path[128];
	int from, to, ret;

	snprintf(path, sizeof(path), "/proc/%d/%.64s", (int)r->pid, r->path);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	to = memfd_create("cudatrace-read", MFD_CLOEXEC);
	ret = to < 0 ? -errno : copy_to(to, from, r->max);
	close(from);
	if (!ret)
		return to;
	if (to >= 0)
		close(to);
	return ret;
}

static int copy_link(const struct reader_request *r)
{
	char path[128], text[4096];
	ssize_t n;
	int to;

	snprintf(path, sizeof(path), "/proc/%d/%.64s", (int)r->pid, r->path);
	n = readlink(path, text, r->max < sizeof(text) ? r->max : sizeof(text));
	if (n < 0)
		return -errno;
	to = memfd_create("cudatrace-read", MFD_CLOEXEC);
	if (to < 0)
		return -errno;
	if (write(to, text, n) == n && !lseek(to, 0, SEEK_SET))
		return to;
	close(to);
	return -ENOMEM;
}

/* May wait for the server of a file that the process has mapped there. */
static int copy_memory(const struct reader_request *r)
{
	static uint8_t buf[READER_MEMORY_MAX];
	struct reader_range ranges[READER_RANGES_MAX];
	size_t at = 0, size = r->range_cnt * sizeof(ranges[0]);
	char path[64];
	int from, to;

	if (r->range_cnt > READER_RANGES_MAX)
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)r->pid);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return -errno;
	memcpy(ranges, r->ranges, size);
	for (unsigned i = 0; i < r->range_cnt; i++) {
		struct reader_range *m = &ranges[i];
		ssize_t n = 0;

		m->got = 0;
		if (m->len > sizeof(buf) - at)
			m->len = sizeof(buf) - at;
		memset(buf + at, 0, m->len);
		while (m->got < m->len && m->addr + m->got <= INT64_MAX &&
		       (n = pread(from, buf + at + m->got, m->len - m->got,
				  (off_t)(m->addr + m->got))) > 0)
			m->got += n;
		at += m->len;
	}
	close(from);
	to = memfd_create("cudatrace-read", MFD_CLOEXEC);
	if (to < 0)
		return -errno;
	if (write(to, ranges, size) == (ssize_t)size && write(to, buf, at) == (ssize_t)at &&
	    !lseek(to, 0, SEEK_SET))
		return to;
	close(to);
	return -ENOMEM;
}

/* Repeats the request with the thread that represents the process. */
static void go_by_thread(struct reader_request *r, pid_t tid)
{
	char from[32], to[32];
	size_t from_len = snprintf(from, sizeof(from), "/proc/%d/", (int)r->pid);
	size_t to_len = snprintf(to, sizeof(to), "/proc/%d/", (int)tid);
	size_t len = strlen(r->path);

	r->pid = tid;
	if (r->range_cnt || r->copy || strncmp(r->path, from, from_len) != 0 ||
	    len - from_len + to_len >= sizeof(r->path))
		return;
	memmove(r->path + to_len, r->path + from_len, len - from_len + 1);
	memcpy(r->path, to, to_len);
}

int reader_serve(const struct reader_request *request)
{
	pid_t tid = request->pid ? task_living(request->pid) : 0;
	struct reader_request r = *request;

	if (tid && tid != r.pid)
		go_by_thread(&r, tid);
	if (r.range_cnt)
		return copy_memory(&r);
	if (r.link)
		return copy_link(&r);
	return r.copy ? copy_file(&r) : open_file(&r);
}
