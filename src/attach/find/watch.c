/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_SETLEASE */
#endif
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/stray.h"

static int watch_also(const struct watch_fds *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return fd < 0 || epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int watch__open(struct watch_fds *w)
{
	sigset_t set;
	int ret;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	/* SIGIO's default action ends the process. */
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	w->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	w->fd = epoll_create1(EPOLL_CLOEXEC);
	ret = w->fd < 0 ? -errno : watch_also(w, w->signal_fd);
	ret = ret ?: watch_also(w, w->notify_fd);
	if (ret)
		watch__close(w);
	return ret;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void watch__close(struct watch_fds *w)
{
	close_fd(&w->fd);
	close_fd(&w->signal_fd);
	close_fd(&w->notify_fd);
}

void watch__read(struct watch_fds *w)
{
	struct signalfd_siginfo si;
	char buf[4096];

	/* Check each file instead: signals, and events of a full queue, may be missed. */
	while (read(w->signal_fd, &si, sizeof(si)) > 0)
		if (si.ssi_code <= 0)
			stray_note(SIGIO, si.ssi_pid);
	while (read(w->notify_fd, buf, sizeof(buf)) > 0)
		;
}

int file_watch__open(struct file_watch *f, const struct watch_fds *w, int fd)
{
	f->notify = -1;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return f->fd < 0 ? -errno : file_watch__hold(f, w);
}

/* A file without a name cannot be opened again: only its holder can write (memfd_create(2)). */
static bool has_no_name(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && !st.st_nlink;
}

int file_watch__hold(struct file_watch *f, const struct watch_fds *w)
{
	char path[64];

	if (!fcntl(f->fd, F_SETLEASE, F_RDLCK))
		return layer_file__read(&f->seen, f->fd);
	if ((errno == EAGAIN || errno == EBUSY) && !has_no_name(f->fd))
		return -ETXTBSY;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	f->notify = inotify_add_watch(w->notify_fd, path, IN_MODIFY);
	return layer_file__read(&f->seen, f->fd) ?: 1;
}

void file_watch__release(struct file_watch *f, const struct watch_fds *w)
{
	if (f->notify >= 0)
		inotify_rm_watch(w->notify_fd, f->notify);
	else if (f->fd >= 0)
		fcntl(f->fd, F_SETLEASE, F_UNLCK);
	f->notify = -1;
}

bool file_watch__is_written(const struct file_watch *f)
{
	struct layer_file now;

	if (f->fd < 0)
		return false;
	/* The lease type changes when a writer waits. */
	if (f->notify < 0 && fcntl(f->fd, F_GETLEASE) == F_UNLCK)
		return true;
	return !layer_file__read(&now, f->fd) && !layer_file__same_content(&f->seen, &now);
}

bool file_watch__is_open_to_others(const struct file_watch *f)
{
	struct stat st;

	return fstat(f->fd, &st) || (st.st_nlink && st.st_mode & (S_IWGRP | S_IWOTH));
}

void file_watch__close(struct file_watch *f, const struct watch_fds *w)
{
	if (f->fd < 0)
		return;
	file_watch__release(f, w);
	close_fd(&f->fd);
}
