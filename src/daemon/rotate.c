/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rotate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spool.h"
#include "runner.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/own_folder.h"
#include "util/privs.h"

#define RETRY_NS    (10 * SEC_NS)
#define BACKOFF_MAX (300 * SEC_NS)
#define FLUSH_NS    SEC_NS
/* Frames of lines that hardly compress are larger. */
#define FRAME_MAX   (64 << 10)
#define STAMP_SZ    17 /* 20260101T000000Z */
#define PREFIX	    SPOOL_TRACE
#define PART	    SPOOL_PART
#define PENDING_DIR ROTATE_PENDING

struct rotate {
	struct rotate_opts o;
	struct metrics_files s;
	int dir_fd, pending_fd; /* -1: not open now */
	struct zfile *z;
	struct out *scratch;
	char name[SPOOL_NAME_SZ]; /* name of the open file, without .part */
	char stamp[STAMP_SZ];	  /* stamp of the newest file */
	unsigned seq;
	uint64_t file_lines, opened_ns, flushed_ns, retry_ns;
	uint64_t closed_bytes; /* of finished files */
	/* the command */
	bool cmd_runs;
	char cmd_file[SPOOL_NAME_SZ];
	uint64_t cmd_retry_ns, backoff_ns;
};

static bool has_command(const struct rotate *r)
{
	return r->o.runner && r->o.on_rotate && *r->o.on_rotate;
}

/* Reported once for each new reason. */
static void set_error(struct rotate *r, const char *what, int error, uint64_t now_ns)
{
	const char *why = strerror(error);

	if (!r->s.error || strcmp(r->s.error, why))
		warn("%s %s: %s: lines are dropped; trying again every 10 s", what, r->o.dir, why);
	r->s.error = why;
	r->retry_ns = now_ns + RETRY_NS;
}

static void move(struct rotate *r, int from, const char *old, int to, const char *new)
{
	if (renameat(from, old, to, new))
		warn("cannot rename %s in %s: %s: the file keeps that name", old, r->o.dir,
		     strerror(errno));
}

/* Removes the oldest files until new_bytes more fit; none when all of them would not be enough.
 * Files that wait for the command are never removed. */
static bool make_room(struct rotate *r, uint64_t new_bytes)
{
	uint64_t pending = has_command(r) ? spool__scan(r->pending_fd).bytes : 0;

	for (;;) {
		struct spool done = spool__scan(r->dir_fd);

		r->s.disk_bytes = done.bytes + pending + new_bytes;
		r->closed_bytes = done.bytes + pending;
		if (r->s.disk_bytes <= r->o.total)
			return true;
		if (pending + new_bytes > r->o.total || !done.oldest[0] ||
		    unlinkat(r->dir_fd, done.oldest, 0))
			return false;
		r->s.removed++;
	}
}

/* A file exceeds size by what was in the compressor when it reached it, or by a frame. */
uint64_t rotate_file_room(uint64_t size, enum compression how)
{
	return size + (how == COMPRESS_NONE ? 32 << 10 : 192 << 10);
}

static uint64_t file_room(const struct rotate *r)
{
	return rotate_file_room(r->o.size, r->o.compress);
}

/* Adopts files that an earlier daemon was writing: complete lines up to its last flush. */
static void adopt_parts(struct rotate *r)
{
	int fd = openat(r->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	char name[SPOOL_NAME_SZ];
	struct dirent *de;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((de = readdir(dir))) {
		size_t len = strlen(de->d_name);

		if (!spool_is_trace(de->d_name) || !spool_is_part(de->d_name) ||
		    len >= SPOOL_NAME_SZ)
			continue;
		memcpy(name, de->d_name, len - strlen(PART));
		name[len - strlen(PART)] = '\0';
		move(r, r->dir_fd, de->d_name, has_command(r) ? r->pending_fd : r->dir_fd, name);
	}
	closedir(dir);
}

/* A command was configured, and is not any more. */
static void adopt_pending(struct rotate *r)
{
	int fd = openat(r->dir_fd, PENDING_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct spool f;

	if (fd < 0)
		return;
	for (f = spool__scan(fd); f.oldest[0]; f = spool__scan(fd))
		if (renameat(fd, f.oldest, r->dir_fd, f.oldest))
			break;
	close(fd);
}

/* Names increase whatever the clock does: the first one is the oldest file. */
static void go_on_after(struct rotate *r, int dir_fd)
{
	struct spool f = spool__scan(dir_fd);
	const char *newest = spool_stamp(f.newest);
	char stamp[STAMP_SZ];
	unsigned seq;

	if (!newest || sscanf(newest, "%16[0-9TZ]-%u", stamp, &seq) != 2 || strlen(stamp) != 16 ||
	    strcmp(stamp, r->stamp) < 0)
		return;
	strcpy(r->stamp, stamp);
	r->seq = seq;
}

static void close_dirs(struct rotate *r)
{
	if (r->dir_fd >= 0)
		close(r->dir_fd);
	if (r->pending_fd >= 0)
		close(r->pending_fd);
	r->dir_fd = r->pending_fd = -1;
}

/* false if the directory was removed or replaced. */
static bool dir_is_there(const struct rotate *r)
{
	struct stat now, opened;

	return r->dir_fd >= 0 && !stat(r->o.dir, &now) && !fstat(r->dir_fd, &opened) &&
	       now.st_ino == opened.st_ino && now.st_dev == opened.st_dev;
}

/* 0 or -errno. */
static int find_dirs(struct rotate *r)
{
	if (mkdir(r->o.dir, 0700) && errno != EEXIST)
		return -errno;
	r->dir_fd = open(r->o.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir_fd < 0)
		return -errno;
	/* Files are renamed and removed here. */
	if (!folder__is_path_ours(r->o.dir) || !folder__is_ours(r->dir_fd, true))
		return -EPERM;
	if (has_command(r)) {
		if (mkdirat(r->dir_fd, PENDING_DIR, 0700) && errno != EEXIST)
			return -errno;
		r->pending_fd = openat(r->dir_fd, PENDING_DIR,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r->pending_fd < 0)
			return -errno;
		/* The command gets a path, so no other user may change the directory. */
		if (!folder__is_ours(r->pending_fd, false))
			return -EPERM;
	}
	return 0;
}

/* 0 or -errno. */
static int open_dirs(struct rotate *r)
{
	int ret;

	if (dir_is_there(r) && (!has_command(r) || r->pending_fd >= 0))
		return 0;
	close_dirs(r);
	privs_lower();
	ret = find_dirs(r);
	privs_raise();
	if (ret) {
		close_dirs(r);
		return ret;
	}
	adopt_parts(r);
	if (has_command(r))
		go_on_after(r, r->pending_fd);
	else
		adopt_pending(r);
	go_on_after(r, r->dir_fd);
	return 0;
}

static void no_dirs(struct rotate *r, int error, uint64_t now_ns)
{
	set_error(
		r,
		error == EPERM
			? "files.directory: other users can replace it, or what is in it: choose another,"
			: "cannot write to",
		error, now_ns);
}

void rotate__next_stamp(struct rotate *r, char text[ROTATE_STAMP_SZ])
{
	time_t now = time(NULL);
	char stamp[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
	if (strlen(stamp) < STAMP_SZ && strcmp(stamp, r->stamp) > 0)
		strcpy(r->stamp, stamp);
	snprintf(text, ROTATE_STAMP_SZ, "%s-%06u", r->stamp, ++r->seq);
}

static int create(struct rotate *r, char *part, size_t part_sz)
{
	char stamp[ROTATE_STAMP_SZ];
	int fd;

	do {
		rotate__next_stamp(r, stamp);
		snprintf(r->name, sizeof(r->name), PREFIX "%s.jsonl%s", stamp,
			 compression_suffix(r->o.compress));
		snprintf(part, part_sz, "%s" PART, r->name);
		fd = openat(r->dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	} while (fd < 0 && errno == EEXIST);
	return fd < 0 ? -errno : fd;
}

/* Writes the lines that header or end puts into an out. */
static int put_text(struct rotate *r, void (*text)(void *, struct out *))
{
	int ret;

	r->scratch->len = r->scratch->mark = 0;
	text(r->o.ctx, r->scratch);
	ret = zfile__write(r->z, r->scratch->buf, r->scratch->len, 0);
	r->scratch->len = r->scratch->mark = 0;
	return ret;
}

static void drop_file(struct rotate *r)
{
	char part[SPOOL_NAME_SZ + 8];

	zfile__close(r->z);
	r->z = NULL;
	snprintf(part, sizeof(part), "%s" PART, r->name);
	unlinkat(r->dir_fd, part, 0);
}

static bool open_file(struct rotate *r, uint64_t now_ns)
{
	char part[SPOOL_NAME_SZ + 8];
	int ret = open_dirs(r);

	if (ret) {
		no_dirs(r, -ret, now_ns);
		return false;
	}
	if (!make_room(r, file_room(r))) {
		set_error(r, "files.total_size is used up in", EDQUOT, now_ns);
		return false;
	}
	ret = create(r, part, sizeof(part));
	if (ret < 0) {
		set_error(r, "cannot create a file in", -ret, now_ns);
		return false;
	}
	r->z = zfile__new(ret, r->o.compress);
	if (!r->z) {
		set_error(r, "cannot write to", ENOMEM, now_ns);
		return false;
	}
	r->file_lines = 0;
	r->opened_ns = r->flushed_ns = now_ns;
	ret = put_text(r, r->o.header) ?: zfile__flush(r->z);
	if (ret) {
		set_error(r, "cannot write to", -ret, now_ns);
		drop_file(r);
		return false;
	}
	if (r->s.error)
		info("%s: lines are written again", r->o.dir);
	r->s.error = NULL;
	return true;
}

static bool file_is_there(const struct rotate *r)
{
	return dir_is_there(r) && zfile__is_there(r->z);
}

/* The open file was removed, with its directory or alone. */
static void file_is_gone(struct rotate *r, uint64_t now_ns)
{
	set_error(r, "the open file was removed or cut in", ENOENT, now_ns);
	r->retry_ns = now_ns;
	r->s.dropped += r->file_lines;
	zfile__close(r->z);
	r->z = NULL;
}

void rotate__finish_file(struct rotate *r, uint64_t now_ns)
{
	char part[SPOOL_NAME_SZ + 8];
	int ret;

	if (!r->z)
		return;
	if (!zfile__is_there(r->z)) {
		file_is_gone(r, now_ns);
		return;
	}
	ret = zfile__flush(r->z);
	if (ret) {
		set_error(r, "cannot write to", -ret, now_ns);
		r->file_lines -= zfile__unwritten(r->z);
		r->s.dropped += zfile__unwritten(r->z);
	}
	if (!r->file_lines) {
		drop_file(r);
		return;
	}
	/* Without an end, its losses are in that of the next file. */
	if (!ret)
		put_text(r, r->o.end);
	ret = zfile__close(r->z);
	r->z = NULL;
	snprintf(part, sizeof(part), "%s" PART, r->name);
	move(r, r->dir_fd, part, has_command(r) ? r->pending_fd : r->dir_fd, r->name);
	r->s.files++;
	if (ret)
		set_error(r, "cannot write to", -ret, now_ns);
	make_room(r, 0);
}

static void write_failed(struct rotate *r, int error, uint64_t now_ns)
{
	set_error(r, "cannot write to", error, now_ns);
	rotate__finish_file(r, now_ns);
}

/* Must not be called right after the line that fills the file was written, because that line is
 * counted for the end line only later. */
static void finish_full(struct rotate *r, uint64_t now_ns)
{
	if (r->z && zfile__size(r->z) >= r->o.size)
		rotate__finish_file(r, now_ns);
}

static void count(struct rotate *r, uint64_t lines, size_t len)
{
	r->file_lines += lines;
	r->s.lines += lines;
	r->s.bytes += len;
}

/* 0 or -errno. */
static int write_line(struct rotate *r, const char *line, size_t len)
{
	int ret = zfile__write(r->z, line, len, 1);

	if (!ret)
		count(r, 1, len);
	return ret;
}

bool rotate__try_frame(struct rotate *r, const char *frame, size_t frame_len, size_t len,
		       uint64_t lines)
{
	if (!r->z || r->o.compress != COMPRESS_ZSTD || frame_len > FRAME_MAX ||
	    zfile__size(r->z) >= r->o.size || zfile__frame(r->z, frame, frame_len, lines))
		return false;
	count(r, lines, len);
	return true;
}

bool rotate__try_line(struct rotate *r, const char *line, size_t len, uint64_t now_ns,
		      bool *written)
{
	*written = r->z;
	if (r->z)
		return zfile__size(r->z) < r->o.size && !write_line(r, line, len);
	if (now_ns >= r->retry_ns)
		return false;
	r->s.dropped++;
	return true;
}

bool rotate__line(struct rotate *r, const char *line, size_t len, uint64_t now_ns)
{
	int ret;

	finish_full(r, now_ns);
	if (!r->z && (now_ns < r->retry_ns || !open_file(r, now_ns))) {
		r->s.dropped++;
		return false;
	}
	ret = write_line(r, line, len);
	if (ret) {
		r->s.dropped++;
		write_failed(r, -ret, now_ns);
	}
	return !ret;
}

static void start_command(struct rotate *r)
{
	strcpy(r->cmd_file, spool__scan(r->pending_fd).oldest);
	if (!r->cmd_file[0])
		return;
	/* A failed start is detected below. */
	runner__start(r->o.runner, r->cmd_file);
	r->cmd_runs = true;
}

static void command_ended(struct rotate *r, int status, uint64_t now_ns)
{
	r->cmd_runs = false;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		move(r, r->pending_fd, r->cmd_file, r->dir_fd, r->cmd_file);
		r->s.taken++;
		r->backoff_ns = 0;
		return;
	}
	r->s.failed++;
	r->backoff_ns = r->backoff_ns ? r->backoff_ns * 2 : SEC_NS;
	if (r->backoff_ns > BACKOFF_MAX)
		r->backoff_ns = BACKOFF_MAX;
	r->cmd_retry_ns = now_ns + r->backoff_ns;
	warn("files.on_rotate failed for %s (%s %d): the next try is in %llu s", r->cmd_file,
	     WIFSIGNALED(status) ? "signal" : "exit status",
	     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
	     (unsigned long long)(r->backoff_ns / SEC_NS));
}

static void run_command(struct rotate *r, uint64_t now_ns)
{
	int status;

	if (r->cmd_runs) {
		if (!runner__ended(r->o.runner, &status))
			return;
		command_ended(r, status, now_ns);
	}
	if (has_command(r) && r->pending_fd >= 0 && now_ns >= r->cmd_retry_ns)
		start_command(r);
}

void rotate__tick(struct rotate *r, uint64_t now_ns)
{
	int ret;

	run_command(r, now_ns);
	finish_full(r, now_ns);
	if (!r->z)
		return;
	if (r->o.age_ns && now_ns - r->opened_ns >= r->o.age_ns) {
		rotate__finish_file(r, now_ns);
		return;
	}
	if (now_ns - r->flushed_ns < FLUSH_NS)
		return;
	r->flushed_ns = now_ns;
	ret = zfile__flush(r->z);
	if (!file_is_there(r))
		file_is_gone(r, now_ns);
	else if (ret)
		write_failed(r, -ret, now_ns);
	else if (r->closed_bytes + zfile__size(r->z) > r->o.total &&
		 !make_room(r, zfile__size(r->z)))
		write_failed(r, EDQUOT, now_ns);
}

int rotate__make_room(struct rotate *r, uint64_t bytes, uint64_t now_ns)
{
	int ret;

	/* Otherwise the loss would go unnoticed: the directory is created again here. */
	if (r->z && !file_is_there(r))
		file_is_gone(r, now_ns);
	ret = open_dirs(r);
	if (ret)
		return ret;
	return make_room(r, bytes + (r->z ? file_room(r) : 0)) ? 0 : -EDQUOT;
}

int rotate__dir(const struct rotate *r)
{
	return r->dir_fd;
}

void rotate__stats(const struct rotate *r, struct metrics_files *s)
{
	*s = r->s;
	s->disk_bytes = r->closed_bytes + (r->z ? zfile__size(r->z) : 0);
}

void rotate__reload(struct rotate *r, const struct rotate_opts *o, uint64_t now_ns)
{
	rotate__finish_file(r, now_ns);
	close_dirs(r);
	r->o = *o;
	r->retry_ns = r->cmd_retry_ns = r->backoff_ns = 0;
}

struct rotate *rotate__new(const struct rotate_opts *o)
{
	struct rotate *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return NULL;
	r->o = *o;
	r->dir_fd = r->pending_fd = -1;
	r->scratch = out__memory();
	if (!r->scratch) {
		free(r);
		return NULL;
	}
	ret = open_dirs(r);
	if (ret)
		no_dirs(r, -ret, 0);
	else
		make_room(r, 0);
	return r;
}

void rotate__free(struct rotate *r, uint64_t now_ns)
{
	if (!r)
		return;
	rotate__finish_file(r, now_ns);
	close_dirs(r);
	out__close(r->scratch);
	free(r);
}
