/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "layer.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

int layer_file__read(struct layer_file *f, int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	*f = (struct layer_file){
		.ino = st.st_ino,
		.size = st.st_size,
		.mtime = st.st_mtim,
		.ctime = st.st_ctim,
		.overlay = fs.f_type == OVERLAYFS_SUPER_MAGIC,
	};
	return 0;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool layer_file__same_content(const struct layer_file *a, const struct layer_file *b)
{
	return a->size == b->size && same_time(&a->mtime, &b->mtime);
}

bool layer_file__same(const struct layer_file *a, const struct layer_file *b)
{
	return (a->overlay || b->overlay) && a->ino == b->ino && a->size == b->size &&
	       same_time(&a->mtime, &b->mtime) && same_time(&a->ctime, &b->ctime);
}
