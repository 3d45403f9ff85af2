/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Library files that somebody is about to write to. A probe is an instruction that the kernel puts
 * at an offset of the file in every process that maps it, whatever lies there by then.
 *
 * We hold a read lease on each file (fcntl(2), F_SETLEASE): who opens it for writing, or truncates
 * it, waits until we have given it back, 45 s at most (/proc/sys/fs/lease-break-time); readers wait
 * for nothing. Some file systems have no leases (NFS, 9p), and on files of other users it takes
 * CAP_LEASE: there we hear of what was written afterwards.
 */
#ifndef ATTACH_FIND_WATCH_H
#define ATTACH_FIND_WATCH_H

#include "layer.h"

#include <stdbool.h>

struct watch_fds {
	int fd; /* readable: something happened to one of the files; -1: none */
	int signal_fd, notify_fd;
};

struct file_watch {
	int fd;	    /* the file; -1: none */
	int notify; /* by inotify; -1: by lease */
	struct layer_file seen;
};

/* SIGIO is blocked from here on. 0 or -errno. */
int watch__open(struct watch_fds *w);
void watch__close(struct watch_fds *w);
/* Takes in what made w->fd readable. */
void watch__read(struct watch_fds *w);

/* A descriptor of its own for fd's file. -ETXTBSY: somebody has it open for writing. Whatever it
 * returns, f is to be closed. */
int file_watch__open(struct file_watch *f, const struct watch_fds *w, int fd);
/* 0: by a lease. -ETXTBSY: not now, try again. 1: its file system has none. */
int file_watch__hold(struct file_watch *f, const struct watch_fds *w);
/* Lets those write who wait for it. */
void file_watch__release(struct file_watch *f, const struct watch_fds *w);
/* Somebody waits to write, or has written. */
bool file_watch__is_written(const struct file_watch *f);
/* Others than its owner and root may. */
bool file_watch__is_open_to_others(const struct file_watch *f);
void file_watch__close(struct file_watch *f, const struct watch_fds *w);

#endif /* ATTACH_FIND_WATCH_H */
