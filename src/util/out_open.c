/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opens outputs, and reports errors. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inherited.h"
#include "log.h"
#include "out_priv.h"
#include "safe_open.h"

#define BUF_SZ (1 << 20)

static const char *open_hint(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return "create the directory, or choose another file";
	case EISDIR:
		return "name a file in it";
	case EACCES:
	case EPERM:
		return "check the permissions, or choose another file";
	case EINTR:
		return "no process opened it for reading";
	case EROFS:
		return "choose a file on another file system";
	case ENOSPC:
	case EDQUOT:
		return "free some space, or choose another file";
	case EBADF:
		return "standard output is closed: name a file";
	case ENOMEM:
		return "close other programs";
	case EPIPE:
		return "cudatrace-open, which opens it, has ended: start cudatrace again";
	default:
		return "choose another file";
	}
}

static const char *refusal_hint(enum safe_open_why why)
{
	switch (why) {
	case SAFE_OPEN_FOREIGN_FILE:
		return "it exists and belongs to another user: remove it, or choose another file";
	case SAFE_OPEN_HARD_LINK:
		return "it has other names (hard links): remove it, or choose another file";
	case SAFE_OPEN_FOREIGN_LINK:
		return "a symbolic link in its path belongs to another user: name the file without "
		       "it";
	case SAFE_OPEN_INPUT:
		return "it is one of the input traces: choose another file";
	default:
		return NULL;
	}
}

static struct out *out__new(int fd, const char *name)
{
	struct out *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->fd = fd;
	o->cap = BUF_SZ;
	o->buf = malloc(o->cap);
	o->name = strdup(name);
	if (o->buf && o->name)
		return o;
	free(o->buf);
	free(o->name);
	free(o);
	return NULL;
}

/* Returns whether SIGINT, SIGTERM or SIGHUP is pending, which the caller has blocked. */
static bool wanted_to_end(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;

	if (sigpending(&set))
		return false;
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigismember(&set, ends[i]) == 1 && !inherited_ignores(ends[i]))
			return true;
	return false;
}

/* A lease (fcntl(2): file servers take them) ends at the latest after lease-break-time, 45 s. */
#define LEASE_MS      60000
#define OPEN_AGAIN_MS 20

/*
 * Opening a FIFO waits for its reader, and a file for a process that holds a lease on it. With
 * signals blocked, that could not be interrupted.
 */
static int open_path(const char *path, enum safe_open_why *why)
{
	int fd, waited_ms = 0;
	struct stat st;

	while ((fd = safe_open(path, why)) < 0 && *why == SAFE_OPEN_ERRNO) {
		int e = errno;
		bool is_fifo = e == ENXIO && !stat(path, &st) && S_ISFIFO(st.st_mode);

		errno = e;
		if (!is_fifo && (e != EAGAIN || waited_ms >= LEASE_MS))
			break;
		poll(NULL, 0, OPEN_AGAIN_MS);
		waited_ms += OPEN_AGAIN_MS;
		if (wanted_to_end()) {
			errno = EINTR;
			return -1;
		}
	}
	return fd;
}

struct out *out__open(const char *path)
{
	bool is_stdout = !strcmp(path, "-");
	const char *name = is_stdout ? "standard output" : path;
	enum safe_open_why why = SAFE_OPEN_ERRNO;
	struct stat st;
	struct out *o;
	int fd;

	/* Closed, or replaced by main(). */
	if (is_stdout && (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		fd = -1;
		errno = EBADF;
	} else if (is_stdout) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	} else {
		fd = open_path(path, &why);
	}
	/* A descriptor that was passed to us was not checked. */
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && safe_open_is_kept(&st)) {
		close(fd);
		fd = -1;
		why = SAFE_OPEN_INPUT;
	}
	if (fd < 0 && refusal_hint(why)) {
		err("cannot write %s: %s", name, refusal_hint(why));
		return NULL;
	}
	if (fd < 0) {
		err("cannot write %s: %s: %s", name, strerror(errno), open_hint(errno));
		return NULL;
	}
	o = out__new(fd, name);
	if (!o) {
		close(fd);
		err("cannot write %s: %s: %s", name, strerror(ENOMEM), open_hint(ENOMEM));
		return NULL;
	}
	out_opened(o, !is_stdout && safe_open_fd(path) < 0);
	return o;
}

void out__no_next(struct out *o, const char *name, int e)
{
	err("cannot write %s: %s: %s: the trace written so far is kept", name, strerror(e),
	    open_hint(e));
	o->failed = true;
	o->error = e;
}

void out__next(struct out *o, int fd, const char *name)
{
	char *copy = strdup(name);

	if (!copy) {
		close(fd);
		out__no_next(o, name, ENOMEM);
		return;
	}
	/* Network file systems report a full quota on close. */
	if (close(o->fd) && errno != EINTR)
		out_fail(o, errno);
	o->fd = fd;
	free(o->name);
	o->name = copy;
	out_opened(o, true);
	o->written = o->begun = o->boundary[0] = o->boundary[1] = 0;
}

struct out *out__memory(void)
{
	return out__new(-1, "memory");
}
