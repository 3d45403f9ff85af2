/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "out_priv.h"
#include "util/plural.h"

/* More than the size of closing units. */
#define BOUNDARY_GAP (64 << 10)
/* Maximum data buffered for a stuck reader, in addition to the current line. */
#define STUCK_SZ_MAX (16 << 20)
/* Bytes that are put at once: no more need to fit into the buffer of an output that has failed. */
#define PART_SZ (64 << 10)
/* Time for which a reader that reads nothing may block the writer, once. */
#define STUCK_MS 100
/* After this time a message names the output that is waited for. */
#define STUCK_TELL_MS 2000

static int write_timeout_fd = -1, write_timeout_ms = -1;

static const char *write_hint(int e)
{
	switch (e) {
	case ENOSPC:
	case EDQUOT:
		return "the trace up to here is kept; free some space, or choose another file";
	case EFBIG:
		return "the trace up to here is kept; raise the file size limit (ulimit -f)";
	case EPIPE:
		return "its reader has exited: the rest is not written";
	case ENOMEM:
		return "what was written before is kept; close other programs";
	default:
		return "nothing more is written; check the device, or choose another file";
	}
}

/* Returns the end of the unit that starts at `at` in the buffer; 0: it does not end before
 * `end`. */
static size_t unit_end(const struct out *o, size_t at, size_t end)
{
	const char *p = o->buf + at, *newline;
	size_t n;

	if (o->unit_len) {
		n = o->unit_len(p, end - at);
		return n && n <= end - at ? at + n : 0;
	}
	newline = memchr(p, '\n', end - at);
	return newline ? (size_t)(newline + 1 - o->buf) : 0;
}

/* Counts units that end in this part of the buffer; *last is the end of the last. */
static uint64_t count_units(const struct out *o, size_t from, size_t to, size_t *last)
{
	uint64_t cnt = 0;
	size_t end;

	if (from < o->begun) {
		if (to < o->begun)
			return 0;
		from = o->begun;
		cnt = 1;
		if (last)
			*last = from;
	}
	for (; from < to && (end = unit_end(o, from, to)); from = end) {
		cnt++;
		if (last)
			*last = end;
	}
	return cnt;
}

/*
 * A write() that cannot kill the process: SIGPIPE and SIGXFSZ are blocked meanwhile, and a signal
 * that this write raised is removed from the queue. The command that we start would inherit it if
 * they were ignored for the whole process.
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

/*
 * Waits until fd can be written. Returns false after ms (-1: no limit), or when signal_fd (-1:
 * none) can be read. Regular files can always be written.
 */
static bool can_write(int fd, int ms, int signal_fd)
{
	struct pollfd p[] = {{.fd = fd, .events = POLLOUT}, {.fd = signal_fd, .events = POLLIN}};
	int ret;

	do
		ret = poll(p, 2, ms);
	while (ret < 0 && errno == EINTR);
	return ret <= 0 ? ret < 0 : p[0].revents != 0;
}

/*
 * Writes what the reader takes. Returns -EAGAIN when the reader takes no more. When poll() reports
 * a pipe as writable, PIPE_BUF bytes can be written without blocking, whatever its flags, even if
 * the pipe is shared.
 */
static int write_some(int fd, const char *p, size_t n, size_t *done, int ms, int signal_fd)
{
	for (*done = 0; *done < n;) {
		size_t part = n - *done < PIPE_BUF ? n - *done : PIPE_BUF;
		ssize_t ret;

		if (!can_write(fd, ms, signal_fd))
			return -EAGAIN;
		ret = write_quietly(fd, p + *done, part);
		if (ret > 0)
			*done += ret;
		else if (ret == 0)
			return -EIO;
		else if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
	return 0;
}

/* Writes n bytes to a file; *done is the number written. Returns 0 or -errno. */
static int write_all(int fd, const char *p, size_t n, size_t *done)
{
	for (*done = 0; *done < n;) {
		ssize_t ret = write_quietly(fd, p + *done, n - *done);

		if (ret > 0) {
			*done += ret;
		} else if (ret == 0) {
			return -EIO;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

void out_fail(struct out *o, int e)
{
	o->failed = true;
	if (o->error)
		return;
	o->error = e;
	err("cannot write %s: %s: %s", o->name, strerror(e), write_hint(e));
}

/* The write stopped after done bytes of the buffer: cut what follows the last whole unit. The
 * offset is relative to the current end, since standard output may have started in the middle of a
 * file. */
static void cut_back(struct out *o, size_t done)
{
	size_t whole = 0;
	off_t pos;

	count_units(o, 0, done, &whole);
	o->written += whole;
	o->lost += count_units(o, whole, o->mark, NULL);
	/* Nothing was overwritten: the part to be cut is unchanged. A file system that never
	 * overwrites (btrfs) needs a new block for it, which a full quota refuses. It would damage
	 * a file that it cannot shorten. */
	if (o->stale && !done) {
		o->written += o->stale;
		o->lost -= o->stale_lines;
		o->stale = 0;
		return;
	}
	if (!o->is_file || (whole == done && !o->stale))
		return;
	pos = lseek(o->fd, 0, SEEK_CUR);
	if (pos < (off_t)(done - whole))
		return;
	pos -= done - whole;
	if (!ftruncate(o->fd, pos))
		lseek(o->fd, pos, SEEK_SET);
	o->stale = 0;
}

/* The lines cut by out__make_room() are after the new end of the file. */
static void drop_stale(struct out *o)
{
	off_t pos = lseek(o->fd, 0, SEEK_CUR);

	if (pos < 0 || ftruncate(o->fd, pos))
		out_fail(o, errno);
	o->stale = 0;
}

/* Drops n bytes, possibly part of a unit: its rest stays at the start of the buffer. */
static void forget(struct out *o, size_t n)
{
	size_t end = 0;

	if (o->unit_len && n < o->mark) {
		count_units(o, 0, n, &end);
		if (n < o->begun)
			end = o->begun;
		else if (end < n)
			end = unit_end(o, end, o->mark);
		o->begun = end - n;
	} else {
		o->begun = 0;
	}
	memmove(o->buf, o->buf + n, o->len - n);
	o->len -= n;
	o->mark -= n;
}

/* Units can only be found from their start: remembers a start that is far enough from the end. */
static void note_boundary(struct out *o)
{
	if (o->written - o->boundary[1] < BOUNDARY_GAP)
		return;
	o->boundary[0] = o->boundary[1];
	o->boundary[1] = o->written;
}

static void flush(struct out *o, int ms, int signal_fd)
{
	size_t done = 0;
	int ret;

	if (!o->mark || o->fd < 0 || o->held)
		return;
	out__check(o, false);
	if (o->failed) {
		o->lost += count_units(o, 0, o->mark, NULL);
		forget(o, o->mark);
		return;
	}
	if (o->is_file)
		ret = write_all(o->fd, o->buf, o->mark, &done);
	else
		ret = write_some(o->fd, o->buf, o->mark, &done, ms, signal_fd);
	if (ret == -EAGAIN && !o->is_file) {
		o->stuck = true;
		o->written += done;
		forget(o, done);
		return;
	}
	o->stuck = false;
	if (ret) {
		cut_back(o, done);
		out_fail(o, -ret);
	} else {
		note_boundary(o);
		o->written += done;
		if (o->stale)
			drop_stale(o);
		out_note_end(o);
	}
	forget(o, o->mark);
}

void out__flush(struct out *o)
{
	flush(o, o->stuck ? 0 : STUCK_MS, -1);
}

void out__commit(struct out *o)
{
	if (o->stuck && !o->last && o->len > STUCK_SZ_MAX) {
		o->lost += count_units(o, o->mark, o->len, NULL);
		out__rollback(o);
	}
	o->mark = o->len;
}

/* Swaps the buffers where that saves a copy. */
void out__write_all_of(struct out *o, struct out *from)
{
	struct out was;

	out__flush(o);
	if (o->len || o->unit_len) {
		out_bytes(o, from->buf, from->len);
		out__commit(o);
		return;
	}
	was = *o;
	o->buf = from->buf;
	o->cap = from->cap;
	o->len = o->mark = from->len;
	from->buf = was.buf;
	from->cap = was.cap;
	out__flush(o);
}

const char *out__why(const struct out *o)
{
	return o->external_change
		       ?: o->error ? strerror(o->error)
		  : o->lost	   ? OUT_READER_SLOW
				   : NULL;
}

void out__set_write_timeout(int signal_fd, int ms)
{
	write_timeout_fd = signal_fd;
	write_timeout_ms = ms;
}

void out__rollback(struct out *o)
{
	o->len = o->mark;
}

void out__fit(struct out *o)
{
	char *buf = realloc(o->buf, o->len ?: 1);

	if (!buf)
		return;
	o->buf = buf;
	o->cap = o->len ?: 1;
}

/* Drops the unit that does not fit into memory, and all after it. Its rest, too, finds space in the
 * buffer. */
static char *fail_for_memory(struct out *o, size_t n)
{
	bool held = o->held;

	o->held = false;
	out__flush(o);
	o->held = held;
	out_fail(o, ENOMEM);
	o->lost += count_units(o, 0, o->mark, NULL);
	o->len = o->mark = o->begun = 0;
	if (o->cap >= n)
		return o->buf;
	free(o->buf);
	o->buf = malloc(n);
	o->cap = n;
	return o->buf;
}

char *out__room(struct out *o, size_t n)
{
	size_t cap = o->cap;
	char *buf;

	out__flush(o);
	if (o->cap - o->len >= n)
		return o->buf + o->len;
	while (cap - o->len < n)
		cap *= 2;
	buf = realloc(o->buf, cap);
	if (buf) {
		o->buf = buf;
		o->cap = cap;
		return buf + o->len;
	}
	buf = o->fd >= 0 || o->is_checked ? fail_for_memory(o, n) : NULL;
	if (!buf) {
		err("cannot write %s: out of memory: close other programs", o->name);
		exit(1);
	}
	return buf;
}

void out__bytes(struct out *o, const char *s, size_t n)
{
	for (size_t part; n; s += part, n -= part) {
		part = n < PART_SZ ? n : PART_SZ;
		memcpy(out_reserve(o, part), s, part);
		o->len += part;
	}
}

/* Finds the cut for units other than lines, which are parsed forward from a boundary. */
static off_t find_unit_cut(const struct out *o, int fd, off_t size, size_t n, long *cnt)
{
	off_t begin = size - (off_t)o->written, at = begin + (off_t)o->boundary[0], cut = 0;
	char buf[65536];
	off_t lo = at;
	ssize_t got = 0;

	for (*cnt = 0; at < size;) {
		size_t len = 0;

		if (at < lo + got)
			len = o->unit_len(buf + (at - lo), lo + got - at);
		if (!len) {
			if (at == lo && got)
				return -EIO;
			lo = at;
			got = pread(fd, buf, sizeof(buf), lo);
			if (got <= 0)
				return got < 0 ? -errno : -EIO;
			continue;
		}
		if ((size_t)(size - at) >= n && at > begin) {
			cut = at;
			*cnt = 0;
		}
		++*cnt;
		at += len;
	}
	return cut;
}

/*
 * Finds where the last lines of the file with at least n bytes begin. Returns the offset, and the
 * number of lines in *lines. limit: how much of the file's end is ours. Returns 0 when the first
 * line would be cut too.
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

			/* The newline at the very end ends the last line. */
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
	if (!o->is_file || o->external_change)
		return -ESPIPE;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", o->fd);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		cut = -errno;
	else if (o->unit_len)
		cut = find_unit_cut(o, fd, st.st_size, n, &lines);
	else
		cut = find_cut(fd, st.st_size, o->written, n, &lines);
	close(fd);
	if (cut <= 0)
		return cut ? cut : -ENOSPC;
	/* The lines are overwritten first and cut off afterwards: another program could take the
	 * blocks of a truncated file at once. A file in append mode cannot be overwritten. */
	if (fcntl(o->fd, F_GETFL) & O_APPEND) {
		if (ftruncate(o->fd, cut))
			return -errno;
	} else {
		o->stale = st.st_size - cut;
		o->stale_lines = lines;
	}
	if (lseek(o->fd, cut, SEEK_SET) < 0)
		return -errno;
	out_note_end(o);
	o->written -= st.st_size - cut;
	o->boundary[1] = o->boundary[0];
	o->lost += lines;
	o->len = o->mark = o->begun = 0;
	o->failed = false;
	return lines;
}

void out__finish(struct out *o)
{
	if (o->finished)
		return;
	o->finished = true;
	out__rollback(o);
	flush(o, write_timeout_ms < 0 ? STUCK_TELL_MS : write_timeout_ms, write_timeout_fd);
	if (write_timeout_ms < 0 && out__waits(o)) {
		info("waiting for the reader of %s: Ctrl-C stops waiting", o->name);
		flush(o, -1, write_timeout_fd);
	}
	if (out__waits(o)) {
		o->lost += count_units(o, 0, o->mark, NULL);
		err("%s: %llu %s not written: its reader does not read", o->name,
		    (unsigned long long)o->lost, noun(o->lost, "line was", "lines were"));
	}
	if (o->stale)
		drop_stale(o);
	out__check(o, true);
}

int out__close(struct out *o)
{
	int ret;

	if (!o)
		return 0;
	out__finish(o);
	/* Network file systems report a full quota on close. */
	if (o->fd >= 0 && close(o->fd) && errno != EINTR)
		out_fail(o, errno);
	ret = o->error ? -o->error : o->lost ? -ENOBUFS : 0;
	free(o->buf);
	free(o->name);
	free(o);
	return ret;
}
