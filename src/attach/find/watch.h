/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Detects library files that are about to be written. A probe is an instruction that the kernel
 * puts at a file offset in every process that maps the file, whatever is there by then.
 *
 * We hold a read lease on each file (fcntl(2), F_SETLEASE). A process that opens it for writing, or
 * truncates it, waits until we release the lease, at most 45 s (/proc/sys/fs/lease-break-time).
 * Readers do not wait. Some file systems have no leases (NFS, 9p), and files of other users need
 * CAP_LEASE. There, writes are detected only afterwards.
 */
#ifndef ATTACH_FIND_WATCH_H
#define ATTACH_FIND_WATCH_H

#include "layer.h"

#include <stdbool.h>

struct watch_fds {
	int fd; /* readable: an event on one of the files; -1: none */
	int signal_fd, notify_fd;
};

struct file_watch {
	int fd;	    /* the file; -1: none */
	int notify; /* by inotify; -1: by lease */
	struct layer_file seen;
};

/* Blocks SIGIO from here on. Returns 0 or -errno. */
int watch__open(struct watch_fds *w);
void watch__close(struct watch_fds *w);
/* Reads the events that made w->fd readable. */
void watch__read(struct watch_fds *w);

/* Opens a separate descriptor for fd's file. -ETXTBSY: another process has it open for writing. The
 * caller must close f in every case. */
int file_watch__open(struct file_watch *f, const struct watch_fds *w, int fd);
/* Returns 0: lease held. -ETXTBSY: not now, try again. 1: the file system has no leases. */
int file_watch__hold(struct file_watch *f, const struct watch_fds *w);
/* Lets waiting writers continue. */
void file_watch__release(struct file_watch *f, const struct watch_fds *w);
/* Returns whether a writer is waiting or has written. */
bool file_watch__is_written(const struct file_watch *f);
/* Returns whether users other than its owner and root may write it. */
bool file_watch__is_open_to_others(const struct file_watch *f);
void file_watch__close(struct file_watch *f, const struct watch_fds *w);

#endif /* ATTACH_FIND_WATCH_H */
