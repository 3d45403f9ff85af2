/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks a path as a container sees it: a link there must not lead to a file of ours (/var/run is a
 * link in most images, and in a pod our own namespace is behind it). openat2() would do that, but a
 * seccomp filter cannot check its arguments: a process that may call it may open files for writing.
 */
#include "reader_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROC_MAGIC 0x9fa0
#define DEPTH_MAX  128
#define LINKS_MAX  40
#define PATH_SIZE  4096

struct walk {
	int root, folders[DEPTH_MAX]; /* below the root */
	unsigned depth, links;
	int flags;
	char rest[2 * PATH_SIZE], name[PATH_SIZE];
};

static int here(const struct walk *w)
{
	return w->depth ? w->folders[w->depth - 1] : w->root;
}

static void up(struct walk *w)
{
	if (w->depth)
		close(w->folders[--w->depth]);
}

/* false: no further component. */
static bool next_name(struct walk *w)
{
	size_t at = strspn(w->rest, "/"), len = strcspn(w->rest + at, "/");

	if (len >= sizeof(w->name))
		len = sizeof(w->name) - 1; /* the kernel will refuse it */
	memcpy(w->name, w->rest + at, len);
	w->name[len] = '\0';
	at += strcspn(w->rest + at, "/");
	memmove(w->rest, w->rest + at, strlen(w->rest + at) + 1);
	return len;
}

/* Inserts the target of the link before the rest. Links in a procfs have no meaningful target. */
static int follow(struct walk *w, int link)
{
	char text[PATH_SIZE + sizeof(w->rest)];
	struct statfs fs;
	ssize_t len;

	if (fstatfs(link, &fs))
		return -errno;
	if (fs.f_type == PROC_MAGIC)
		return -EREMOTE;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	len = readlinkat(link, "", text, PATH_SIZE);
	if (len <= 0)
		return len ? -errno : -ENOENT;
	if (len + strlen(w->rest) >= sizeof(w->rest))
		return -ENAMETOOLONG;
	while (*text == '/' && w->depth)
		up(w);
	strcpy(text + len, w->rest);
	strcpy(w->rest, text);
	return 0;
}

/* 0: continue; else the result or -errno. */
static int step(struct walk *w)
{
	struct stat st;
	int fd, ret;

	fd = openat(here(w), w->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = fstat(fd, &st) ? -errno : 0;
	if (!ret && S_ISLNK(st.st_mode) && (*w->rest || !(w->flags & O_NOFOLLOW))) {
		ret = follow(w, fd);
	} else if (!ret && S_ISDIR(st.st_mode) && w->depth < DEPTH_MAX) {
		w->folders[w->depth++] = fd;
		return 0;
	} else if (!ret) {
		ret = S_ISDIR(st.st_mode) ? -ENAMETOOLONG : *w->rest ? -ENOTDIR : fd;
	}
	if (ret != fd)
		close(fd);
	return ret;
}

int reader_walk(int root_fd, const char *path, int flags)
{
	struct walk w = {.root = root_fd, .flags = flags};
	int ret = 0;

	if (strlen(path) >= PATH_SIZE)
		return -ENAMETOOLONG;
	strcpy(w.rest, path);
	while (!ret && next_name(&w)) {
		if (!strcmp(w.name, ".."))
			up(&w);
		else if (strcmp(w.name, "."))
			ret = step(&w);
	}
	if (!ret) {
		ret = openat(here(&w), ".", O_PATH | O_CLOEXEC);
		ret = ret < 0 ? -errno : ret;
	}
	while (w.depth)
		up(&w);
	return ret;
}
