/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "safe_open.h"

#define BUF_SZ (1 << 20)

static void *must(void *p)
{
	if (p)
		return p;
	err("out of memory: close other programs, or trace fewer functions with -e");
	abort();
}

static const char *open_hint(int e)
{
	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return "create the folder, or choose another file";
	case EISDIR:
		return "it is a folder: name a file in it";
	case EACCES:
	case EPERM:
		return "check who may write there, or choose another file";
	case EROFS:
		return "the file system is read-only: choose another file";
	case ENOSPC:
	case EDQUOT:
		return "free some space, or choose another file";
	case EBADF:
		return "standard output is closed: name a file";
	default:
		return "choose another file";
	}
}

static const char *foreign_hint(enum safe_open_why why)
{
	switch (why) {
	case SAFE_OPEN_FOREIGN_FILE:
		return "it is there and belongs to another user: remove it, or choose another file";
	case SAFE_OPEN_HARD_LINK:
		return "it has other names (hard links): remove it, or choose another file";
	case SAFE_OPEN_FOREIGN_LINK:
		return "a symbolic link on the way belongs to another user: name the file without "
		       "it";
	default:
		return NULL;
	}
}

static const char *write_hint(int e)
{
	switch (e) {
	case ENOSPC:
	case EDQUOT:
		return "the trace up to here is kept; free some space, or choose another file";
	case EFBIG:
		return "the trace up to here is kept; raise the file size limit (ulimit -f)";
	case EPIPE:
		return "its reader is gone, nothing more is written";
	default:
		return "nothing more is written; check the device, or choose another file";
	}
}

static struct out *out__new(int fd, const char *name)
{
	struct out *o = must(calloc(1, sizeof(*o)));

	o->fd = fd;
	o->cap = BUF_SZ;
	o->buf = must(malloc(o->cap));
	o->name = must(strdup(name));
	return o;
}

struct out *out__open(const char *path)
{
	bool is_stdout = !strcmp(path, "-");
	const char *name = is_stdout ? "standard output" : path;
	enum safe_open_why why = SAFE_OPEN_ERRNO;
	struct stat st;
	struct out *o;
	int fd;

	/* Closed, or plugged by main(). */
	if (is_stdout && (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		fd = -1;
		errno = EBADF;
	} else if (is_stdout) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	} else {
		fd = safe_open(path, &why);
	}
	if (fd < 0 && foreign_hint(why)) {
		err("cannot write %s: %s", name, foreign_hint(why));
		return NULL;
	}
	if (fd < 0) {
		err("cannot write %s: %s: %s", name, strerror(errno), open_hint(errno));
		return NULL;
	}
	o = out__new(fd, name);
	o->is_file = !fstat(fd, &st) && S_ISREG(st.st_mode);
	return o;
}

struct out *out__memory(void)
{
	return out__new(-1, "memory");
}

static uint64_t count_lines(const char *p, size_t n)
{
	uint64_t cnt = 0;
	const char *end = p + n;

	while ((p = memchr(p, '\n', end - p))) {
		cnt++;
		p++;
	}
	return cnt;
}

/*
 * write() that cannot kill: SIGPIPE and SIGXFSZ stay blocked meanwhile, and the one that this write
 * raised is taken off the queue. Ignoring them for the whole process would be inherited by the
 * command that we start.
 */
static ssize_t write_quietly(int fd, const char *p, size_t n)
{
	static const struct timespec zero;
	sigset_t set, old, pending;
	ssize_t ret;
	int e;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGXFSZ);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	ret = write(fd, p, n);
	e = errno;
	if (ret < 0 && (e == EPIPE || e == EFBIG)) {
		int sig = e == EPIPE ? SIGPIPE : SIGXFSZ;

		sigemptyset(&set);
		sigaddset(&set, sig);
		if (!sigismember(&pending, sig))
			sigtimedwait(&set, NULL, &zero);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = e;
	return ret;
}

/* Writes n bytes; *done says how many got out. 0 or -errno. */
static int write_all(int fd, const char *p, size_t n, size_t *done)
{
	for (*done = 0; *done < n;) {
		ssize_t ret = write_quietly(fd, p + *done, n - *done);

		if (ret > 0) {
			*done += ret;
		} else if (ret == 0) {
			return -EIO;
		} else if (errno == EAGAIN) {
			struct pollfd pfd = {.fd = fd, .events = POLLOUT};

			/* Somebody else made the pipe non-blocking. */
			poll(&pfd, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static void fail(struct out *o, int e)
{
	o->failed = true;
	if (o->error)
		return;
	o->error = e;
	err("cannot write %s: %s: %s", o->name, strerror(e), write_hint(e));
}

/* The write stopped after done bytes of the buffer: cut what follows the last newline of them. The
 * cut is counted from where the file ends now, since standard output may have begun in the middle
 * of a file. */
static void cut_back(struct out *o, size_t done)
{
	size_t whole = done;
	off_t pos;

	while (whole && o->buf[whole - 1] != '\n')
		whole--;
	o->written += whole;
	o->lost += count_lines(o->buf + whole, o->mark - whole);
	if (!o->is_file || (whole == done && !o->stale))
		return;
	pos = lseek(o->fd, 0, SEEK_CUR);
	if (pos < (off_t)(done - whole))
		return;
	pos -= done - whole;
	if (!ftruncate(o->fd, pos))
		lseek(o->fd, pos, SEEK_SET);
	o->stale = false;
}

/* What was cut by out__make_room() lies behind the new end of the file. */
static void drop_stale(struct out *o)
{
	off_t pos = lseek(o->fd, 0, SEEK_CUR);

	if (pos < 0 || ftruncate(o->fd, pos))
		fail(o, errno);
	o->stale = false;
}

void out__flush(struct out *o)
{
	size_t done;
	int ret;

	if (!o->mark || o->fd < 0)
		return;
	if (o->failed) {
		o->lost += count_lines(o->buf, o->mark);
	} else {
		ret = write_all(o->fd, o->buf, o->mark, &done);
		if (ret) {
			cut_back(o, done);
			fail(o, -ret);
		} else {
			o->written += done;
			if (o->stale)
				drop_stale(o);
		}
	}
	memmove(o->buf, o->buf + o->mark, o->len - o->mark);
	o->len -= o->mark;
	o->mark = 0;
}

void out__commit(struct out *o)
{
	o->mark = o->len;
}

void out__rollback(struct out *o)
{
	o->len = o->mark;
}

char *out__room(struct out *o, size_t n)
{
	out__flush(o);
	while (o->cap - o->len < n) {
		o->cap *= 2;
		o->buf = must(realloc(o->buf, o->cap));
	}
	return o->buf + o->len;
}

/*
 * Finds where lines of at least n bytes at the end of the file begin: its offset, with the number
 * of lines in *lines. limit is how much of the file's end is ours. 0 when the first line would go
 * too.
 */
static off_t find_cut(int fd, off_t size, uint64_t limit, size_t n, long *lines)
{
	off_t begin = size - (off_t)limit, at = size, lo;
	char buf[65536];

	for (*lines = 0; at > begin; at = lo) {
		ssize_t got;

		lo = at - begin > (off_t)sizeof(buf) ? at - (off_t)sizeof(buf) : begin;
		got = pread(fd, buf, at - lo, lo);
		if (got != at - lo)
			return got < 0 ? -errno : -EIO;
		while (got-- > 0) {
			off_t end = lo + got + 1;

			/* The newline at the very end closes the last line. */
			if (buf[got] != '\n' || end == size)
				continue;
			++*lines;
			if ((size_t)(size - end) >= n)
				return end;
		}
	}
	return 0;
}

long out__make_room(struct out *o, size_t n)
{
	char self[32];
	struct stat st;
	long lines = 0;
	off_t cut;
	int fd;

	if (!o->failed)
		return 0;
	if (!o->is_file)
		return -ESPIPE;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", o->fd);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	cut = fstat(fd, &st) ? -errno : find_cut(fd, st.st_size, o->written, n, &lines);
	close(fd);
	if (cut <= 0)
		return cut ? cut : -ENOSPC;
	/* The lines are overwritten first and cut off afterwards: the blocks of a truncated file
	 * could be taken by another program at once. A file in append mode cannot be overwritten.
	 */
	if (fcntl(o->fd, F_GETFL) & O_APPEND) {
		if (ftruncate(o->fd, cut))
			return -errno;
	} else {
		o->stale = true;
	}
	if (lseek(o->fd, cut, SEEK_SET) < 0)
		return -errno;
	o->written -= st.st_size - cut;
	o->lost += lines;
	o->len = o->mark = 0;
	o->failed = false;
	return lines;
}

int out__close(struct out *o)
{
	int ret;

	if (!o)
		return 0;
	out__rollback(o);
	out__flush(o);
	if (o->stale)
		drop_stale(o);
	/* Network file systems report a full quota here. */
	if (o->fd >= 0 && close(o->fd) && errno != EINTR)
		fail(o, errno);
	ret = -o->error;
	free(o->buf);
	free(o->name);
	free(o);
	return ret;
}
