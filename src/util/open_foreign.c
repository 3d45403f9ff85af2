// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * openat2() with RESOLVE_IN_ROOT would do the walk below; but its flags are behind a pointer, where
 * a seccomp filter cannot see that a file is opened to read (util/sandbox.h).
 */
#include "open_foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as many as the kernel follows */
#define DEPTH_MAX 64

/* Folders from the root to where we are: ".." goes to the one that we came from, wherever it is
 * moved meanwhile. */
struct walk {
	int dirs[DEPTH_MAX];
	unsigned depth;
	unsigned links;
	bool nofollow;	     /* a link at the end */
	char rest[PATH_MAX]; /* components to come */
};

static int fail(int error)
{
	errno = error;
	return -1;
}

static int check_regular(int fd, struct stat *st)
{
	if (fstat(fd, st))
		return -1;
	if (S_ISREG(st->st_mode))
		return 0;
	return fail(S_ISDIR(st->st_mode) ? EISDIR : EINVAL);
}

/* By a descriptor that was opened as a path alone: until it is known what it is. Closes it. */
static int open_checked(int path_fd, struct stat *st)
{
	int fd = -1, keep;
	char self[32];

	if (path_fd < 0)
		return -1;
	if (!check_regular(path_fd, st)) {
		snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
		fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	keep = errno;
	close(path_fd);
	errno = keep;
	return fd;
}

static void go_up(struct walk *w, unsigned depth)
{
	while (w->depth > depth)
		close(w->dirs[--w->depth]);
}

static int go_into(struct walk *w, int fd)
{
	if (w->depth == DEPTH_MAX) {
		close(fd);
		return fail(ENAMETOOLONG);
	}
	w->dirs[w->depth++] = fd;
	return 0;
}

/* Puts the target of a link in the place of what it stood for. Closes it. */
static int follow(struct walk *w, int link_fd, bool last)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlinkat(link_fd, "", target, sizeof(target) - 1);

	close(link_fd);
	if (n <= 0 || ++w->links > LINKS_MAX || (last && w->nofollow))
		return fail(n <= 0 ? ENOENT : ELOOP);
	target[n] = '\0';
	if (snprintf(joined, sizeof(joined), "%s/%s", target, w->rest) >= PATH_MAX)
		return fail(ENAMETOOLONG);
	strcpy(w->rest, joined);
	if (target[0] == '/')
		go_up(w, 1);
	return 0;
}

/* Cuts the first component off; false when there is none. */
static bool next_part(struct walk *w, char part[NAME_MAX + 1])
{
	char *p = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(p, "/");

	if (!len || len > NAME_MAX)
		return false;
	memcpy(part, p, len);
	part[len] = '\0';
	p += len;
	memmove(w->rest, p, strlen(p) + 1);
	return true;
}

static bool is_last(const struct walk *w)
{
	return !w->rest[strspn(w->rest, "/")];
}

/* Of a procfs there are files whose content is about who reads them: us. */
static int open_part(const struct walk *w, const char *part)
{
	int fd = openat(w->dirs[w->depth - 1], part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;

	if (fd >= 0 && (fstatfs(fd, &fs) || fs.f_type == PROC_SUPER_MAGIC)) {
		close(fd);
		return fail(EACCES);
	}
	return fd;
}

/* The file's descriptor (a path alone), or -1. */
static int walk(struct walk *w)
{
	char part[NAME_MAX + 1];
	struct stat st;

	while (next_part(w, part)) {
		bool last = is_last(w);
		int fd;

		if (!strcmp(part, ".."))
			go_up(w, w->depth > 1 ? w->depth - 1 : 1);
		if (!strcmp(part, "..") || !strcmp(part, "."))
			continue;
		fd = open_part(w, part);
		if (fd < 0)
			return -1;
		if (fstat(fd, &st)) {
			close(fd);
			return -1;
		}
		if (S_ISLNK(st.st_mode)) {
			if (follow(w, fd, last))
				return -1;
		} else if (last) {
			return fd;
		} else if (go_into(w, fd)) {
			return -1;
		}
	}
	return fail(is_last(w) ? EISDIR : ENAMETOOLONG);
}

static int walk_from(const char *root, const char *path, bool nofollow)
{
	struct walk w;
	int fd, keep;

	w.depth = w.links = 0;
	w.nofollow = nofollow;
	if (strlen(path) >= sizeof(w.rest))
		return fail(ENAMETOOLONG);
	strcpy(w.rest, path);
	fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	go_into(&w, fd);
	fd = walk(&w);
	keep = errno;
	go_up(&w, 0);
	errno = keep;
	return fd;
}

static int open_by(const char *path, bool nofollow, struct stat *st)
{
	char root[32];
	int at = 0;

	if (sscanf(path, "/proc/%*10[0-9]/root%n", &at) >= 0 && at && path[at] == '/' &&
	    at < (int)sizeof(root)) {
		snprintf(root, sizeof(root), "%.*s", at, path);
		return open_checked(walk_from(root, path + at, nofollow), st);
	}
	return open_checked(open(path, O_PATH | O_CLOEXEC | (nofollow ? O_NOFOLLOW : 0)), st);
}

int open_foreign(const char *path, struct stat *st)
{
	return open_by(path, false, st);
}

int open_foreign_nofollow(const char *path, struct stat *st)
{
	return open_by(path, true, st);
}
